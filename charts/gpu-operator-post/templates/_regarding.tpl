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
{{- if not (kindIs "map" .) -}}
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
{{- $.Values.job.enabled | ternary ($all | uniq) list | toJson -}}
{{- end -}}

{{/*
The namespaces in which the Job needs a Role for them, as a JSON list: each once, and none for a run that writes nothing.
*/}}
{{- define "gpu-operator-post.regardingNamespaces" -}}
{{- $namespaces := list -}}
{{- if not .Values.dryRun -}}
{{- range include "gpu-operator-post.regarding" . | fromJsonArray -}}
{{- $namespaces = append $namespaces .namespace -}}
{{- end -}}
{{- end -}}
{{- $namespaces | uniq | toJson -}}
{{- end -}}

{{/*
What that Role allows: to read these objects, and Events beside them where nothing else allows those. Takes a dict of root
and namespace.
*/}}
{{- define "gpu-operator-post.regardingRules" -}}
{{- $namespace := .namespace -}}
{{- range include "gpu-operator-post.regarding" .root | fromJsonArray }}
{{- if eq .namespace $namespace }}
- apiGroups: [{{ .group }}]
  resources: [{{ .plural }}]
  resourceNames: [{{ .name | quote }}]
  verbs: [get]
{{- end }}
{{- end }}
{{- with include "gpu-operator-post.namespaces" .root | fromJsonArray }}
{{- if not (has $namespace (append . $.root.Release.Namespace)) }}
{{ include "gpu-operator-post.eventRules" $ }}
{{- end }}
{{- end }}
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
