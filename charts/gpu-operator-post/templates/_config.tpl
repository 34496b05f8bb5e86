{{/*
The settings of the program, as JSON with the paths of the values. The program checks each setting and knows its default.
*/}}
{{- define "gpu-operator-post.jobConfig" -}}
{{- pick .Values
  "stack" "plugin" "driverClients" "refreshAfter" "pluginTimeout" "nodeTimeout" "maxParallelRestarts" "onManualUpgrade"
  "logFormat" "logLevel" "advanced" "affectedWorkloads" "deviceTaints"
  "timeout" "onDeadline" "expect" "dryRun" | toJson -}}
{{- end -}}

{{/*
The controller gets no setting of a single run: a release that changes one must not restart it.
*/}}
{{- define "gpu-operator-post.controllerConfig" -}}
{{- $config := pick .Values
  "stack" "plugin" "driverClients" "refreshAfter" "pluginTimeout" "nodeTimeout" "maxParallelRestarts" "onManualUpgrade"
  "logFormat" "logLevel" "advanced" "affectedWorkloads" "deviceTaints" -}}
{{- $controller := pick .Values.controller "maxUnavailable" -}}
{{- set $config "controller" $controller | toJson -}}
{{- end -}}
