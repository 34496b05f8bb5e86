{{/*
Lays one mapping over another, in place: mappings merge, all else is replaced, empty values too.
Takes a dict of below and above.
*/}}
{{- define "gpu-stack.lay" -}}
{{- range $key, $value := .above -}}
{{- $old := get $.below $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $old) -}}
{{- include "gpu-stack.lay" (dict "below" $old "above" $value) -}}
{{- else -}}
{{- $_ := set $.below $key $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
The values of a release as JSON: those of the bundle, over them those of this installation, over them the derived.
The bundle's are in a file of their own, because Helm 4 drops nulls from a chart's values.yaml.
Takes a dict of root and name.
*/}}
{{- define "gpu-stack.values" -}}
{{- $values := .root.Files.Get (printf "static/%s.yaml" .name) | fromYaml -}}
{{- include "gpu-stack.lay" (dict "below" $values "above" (index .root.Values .name | default dict)) -}}
{{- $derived := .root.Files.Get (printf "derived/%s.yaml" .name) | fromYaml -}}
{{- include "gpu-stack.lay" (dict "below" $values "above" $derived) -}}
{{- toJson $values -}}
{{- end -}}
