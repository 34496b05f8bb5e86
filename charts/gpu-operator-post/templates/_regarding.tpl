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
