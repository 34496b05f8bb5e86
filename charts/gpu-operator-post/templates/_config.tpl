{{/*
The settings of the program, as JSON with the paths of the values. The program checks each setting and knows its default.
*/}}
{{- define "gpu-operator-post.config" -}}
{{- $config := pick .Values
  "drivers" "timeout" "stallTimeout" "pluginTimeout" "onDeadline" "expect" "plugin" "driverClients" "refreshAfter"
  "strategy" "maxParallelRestarts" "onManualUpgrade" "onMissingPlugin" "eventTargets" "dryRun" "logFormat" "logLevel"
  "advanced" -}}
{{- $_ := set $config "rbac" (pick .Values.rbac "namespaces") -}}
{{- $_ := set $config "job" (pick .Values.job "mode") -}}
{{- $_ := set $config "controller" (pick .Values.controller "maxUnavailable" "restartBackoff" "restartBackoffMax" "circuitBreaker") -}}
{{- toJson $config -}}
{{- end -}}
