{{/*
The settings of the program, as JSON with the paths of the values. The program checks each setting and knows its default.
The controller gets none of a single run: a release that changes them must not restart it. Takes a dict of root and
component.
*/}}
{{- define "gpu-operator-post.config" -}}
{{- $values := .root.Values -}}
{{- $config := pick $values
  "stack" "plugin" "driverClients" "refreshAfter" "pluginTimeout" "nodeTimeout" "maxParallelRestarts" "onManualUpgrade"
  "logFormat" "logLevel" "advanced" "affectedWorkloads" -}}
{{- if eq .component "controller" -}}
{{- $_ := set $config "controller" (pick $values.controller "maxUnavailable") -}}
{{- else -}}
{{- $config = merge $config (pick $values "timeout" "onDeadline" "expect" "dryRun") -}}
{{- end -}}
{{- toJson $config -}}
{{- end -}}
