{{/*
The deployer's own objects, on which the Job's Events are told too.
*/}}

{{/*
All of them, as a JSON list, each with resource (as it is written: the plural and its group), plural, group, namespace and
name. None where there is no Job. Nothing here may reach a permission or a CEL expression unchecked.
*/}}
{{- define "gpu-operator-post.regarding" -}}
{{- $label := "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?" -}}
{{- $subdomain := printf "%[1]s([.]%[1]s)*" $label -}}
{{- $all := list -}}
{{- range .Values.regarding -}}
{{- if or (not (kindIs "map" .)) (ne (keys . | sortAlpha | join " ") "name namespace resource") -}}
{{- fail (printf "regarding holds %q: write resource, namespace and name of an object, such as {resource: helmreleases.helm.toolkit.fluxcd.io, namespace: flux-system, name: gpu-operator-post}." (toString .)) -}}
{{- end -}}
{{- $resource := .resource | default "" | toString -}}
{{- $namespace := .namespace | default "" | toString -}}
{{- $name := .name | default "" | toString -}}
{{- if or (gt (len $resource) 253) (not (regexMatch (printf "^%s[.]%s$" $label $subdomain) $resource)) -}}
{{- fail (printf "regarding holds the resource %q: write the plural and the group of what your deployer reads, such as helmreleases.helm.toolkit.fluxcd.io or applications.argoproj.io." $resource) -}}
{{- end -}}
{{- include "gpu-operator-post.checkNamespace" (dict "name" "regarding" "value" $namespace) -}}
{{- if or (gt (len $name) 253) (not (regexMatch (printf "^%s$" $subdomain) $name)) -}}
{{- fail (printf "regarding holds the name %q, which is none: a name has small letters, digits, dots and hyphens, at most 253." $name) -}}
{{- end -}}
{{- $plural := regexReplaceAll "[.].*" $resource "" -}}
{{- $group := trimPrefix (printf "%s." $plural) $resource -}}
{{- $all = append $all (dict "resource" $resource "plural" $plural "group" $group "namespace" $namespace "name" $name) -}}
{{- end -}}
{{- if gt (len ($all | uniq)) 4 -}}
{{- fail (printf "regarding names %d objects: 4 are the most, because each takes its time at the end of a run." (len ($all | uniq))) -}}
{{- end -}}
{{- $.Values.job.enabled | ternary ($all | uniq) list | toJson -}}
{{- end -}}

{{/*
The rules to read them, by name. Without a namespace: for a ClusterRole, which needs none of those namespaces to be there,
so that no release fails over one that is not; an object of the same name may then be read in any. Takes a dict of root
and, for a Role, namespace.
*/}}
{{- define "gpu-operator-post.regardingRules" -}}
{{- $namespace := .namespace -}}
{{- range include "gpu-operator-post.regarding" .root | fromJsonArray }}
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
{{- range include "gpu-operator-post.regarding" . | fromJsonArray -}}
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
{{- range include "gpu-operator-post.regarding" . | fromJsonArray }}
|| ({{ $about }}.?apiVersion.orValue("").startsWith({{ printf "%s/" .group | toJson }})
&& {{ $about }}.?namespace.orValue("") == {{ toJson .namespace }} && {{ $about }}.?name.orValue("") == {{ toJson .name }})
{{- end }}
{{- end -}}
