{{/*
The settings of the program, as JSON with the paths of the values. The program checks each setting and knows its default.
The controller gets none of a single run: an upgrade changes those, and must not restart the controller. Takes a dict of
root and component.
*/}}
{{- define "gpu-operator-post.config" -}}
{{- $config := pick .root.Values
  "drivers" "pluginTimeout" "plugin" "driverClients" "refreshAfter" "strategy" "maxParallelRestarts" "onManualUpgrade"
  "onMissingPlugin" "logFormat" "logLevel" "advanced" -}}
{{- $_ := set $config "rbac" (pick .root.Values.rbac "namespaces") -}}
{{- if eq .component "job" -}}
{{- $_ := set $config "job" (pick .root.Values.job "mode") -}}
{{- $config = merge $config (pick .root.Values "timeout" "stallTimeout" "onDeadline" "expect" "eventTargets" "dryRun") -}}
{{- else -}}
{{- $controller := pick .root.Values.controller "maxUnavailable" "restartBackoff" "restartBackoffMax" "circuitBreaker" -}}
{{- $_ := set $config "controller" $controller -}}
{{- end -}}
{{- toJson $config -}}
{{- end -}}
