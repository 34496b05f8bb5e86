{{/*
Lay one mapping over another, in place. Mappings are merged; everything else is replaced, also by an empty value.
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
Return the values of a release as JSON: the bundle's, over them this installation's, over them the derived ones.
The bundle's values are in files of their own, because Helm 4 drops nulls from a chart's values.yaml.
Takes a dict of root and name.
*/}}
{{- define "gpu-stack.values" -}}
{{- $values := .root.Files.Get (printf "static/%s.yaml" .name) | fromYaml -}}
{{- include "gpu-stack.lay" (dict "below" $values "above" (index .root.Values .name | default dict)) -}}
{{- $derived := .root.Files.Get (printf "derived/%s.yaml" .name) | fromYaml -}}
{{- include "gpu-stack.lay" (dict "below" $values "above" $derived) -}}
{{- toJson $values -}}
{{- end -}}
