{{/*
The deployment tool's own objects, on which the Job also writes Events.
*/}}

{{/*
The plural of a kind, as Kubernetes guesses it (meta.UnsafeGuessKindToResource).
*/}}
{{- define "gpu-operator-post.plural" -}}
{{- $kind := lower . -}}
{{- if hasSuffix "s" $kind -}}
{{- printf "%ses" $kind -}}
{{- else if hasSuffix "y" $kind -}}
{{- printf "%sies" (trimSuffix "y" $kind) -}}
{{- else -}}
{{- printf "%ss" $kind -}}
{{- end -}}
{{- end -}}

{{/*
All of them, as a JSON list, each with plural, group, namespace and name. None if there is no Job.
*/}}
{{- define "gpu-operator-post.eventTargets" -}}
{{- $all := list -}}
{{- range .Values.job.enabled | ternary .Values.eventTargets list -}}
{{- $group := splitList "/" .apiVersion | first -}}
{{- $plural := include "gpu-operator-post.plural" .kind -}}
{{- $all = append $all (dict "group" $group "plural" $plural "namespace" .namespace "name" .name) -}}
{{- end -}}
{{- $all | uniq | toJson -}}
{{- end -}}

{{/*
The rules to read them, by name. Without a namespace: for a ClusterRole, which needs none of those namespaces to be there,
so that no release fails over one that is not; an object of the same name may then be read in any. Takes a dict of root
and, for a Role, namespace.
*/}}
{{- define "gpu-operator-post.regardingRules" -}}
{{- $namespace := .namespace -}}
{{- range include "gpu-operator-post.eventTargets" .root | fromJsonArray }}
{{- if or (not $namespace) (eq .namespace $namespace) }}
- apiGroups: [{{ .group | quote }}]
  resources: [{{ .plural | quote }}]
  resourceNames: [{{ .name | quote }}]
  verbs: [get]
{{- end }}
{{- end }}
{{- end -}}

{{/*
The namespaces in which the Job needs a Role for them, as a JSON list: with rbac.scope: namespace, each once, and none for
a run that writes nothing.
*/}}
{{- define "gpu-operator-post.regardingNamespaces" -}}
{{- $namespaces := list -}}
{{- if and (eq .Values.rbac.scope "namespace") (not .Values.dryRun) -}}
{{- range include "gpu-operator-post.eventTargets" . | fromJsonArray -}}
{{- $namespaces = append $namespaces .namespace -}}
{{- end -}}
{{- end -}}
{{- $namespaces | uniq | toJson -}}
{{- end -}}

{{/*
The name of that Role, in a namespace in which other releases of this name may have theirs.
*/}}
{{- define "gpu-operator-post.regardingRole" -}}
{{- include "gpu-operator-post.clusterName" (dict "root" . "name" (printf "%s:regarding" (include "gpu-operator-post.fullname" .))) -}}
{{- end -}}

{{/*
CEL: whether an Event is about one of them. A kind cannot be told from a plural, so that another kind of the same group,
namespace and name would do. Empty where there is none.
*/}}
{{- define "gpu-operator-post.guardRegarding" -}}
{{- $about := "dyn(object).?involvedObject" -}}
{{- range include "gpu-operator-post.eventTargets" . | fromJsonArray }}
|| ({{ $about }}.?apiVersion.orValue("").startsWith({{ printf "%s/" .group | toJson }})
&& {{ $about }}.?namespace.orValue("") == {{ toJson .namespace }} && {{ $about }}.?name.orValue("") == {{ toJson .name }})
{{- end }}
{{- end -}}
