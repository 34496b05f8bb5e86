{{/*
The arguments of the program. Every setting is an explicit flag, so that Job and Deployment show what they run with.
*/}}

{{/*
Arguments of the Job: its times, what it expects, and its name. Takes a dict of root and jobName.
*/}}
{{- define "gpu-operator-post.jobArgs" -}}
{{- with .root.Values -}}
- run
- --timeout={{ .timeout }}
- --stall-timeout={{ .stallTimeout }}
- --on-deadline={{ .onDeadline }}
- --mode={{ .job.mode }}
{{- with .expect.chartVersion }}
- {{ printf "--expect-chart-version=%s" . | quote }}
{{- end }}
{{- with .expect.driverVersion }}
- {{ printf "--expect-driver-version=%s" . | quote }}
{{- end }}
{{- if .dryRun }}
- --dry-run
{{- end }}
{{- end }}
- --job-name={{ .jobName }}
- --job-namespace={{ .root.Release.Namespace }}
{{- range include "gpu-operator-post.eventTargets" .root | fromJsonArray }}
- {{ printf "--event-target=%s.%s/%s/%s" .plural .group .namespace .name | quote }}
{{- end }}
{{- if eq .root.Values.job.mode "delegate" }}
{{ include "gpu-operator-post.leaseArgs" .root }}
{{- end }}
{{ include "gpu-operator-post.sharedArgs" .root | trim }}
{{- end -}}

{{/*
Arguments of the controller: its bounds, and where its metrics are.
*/}}
{{- define "gpu-operator-post.followArgs" -}}
{{- with .Values.controller -}}
- controller
- --max-unavailable={{ include "gpu-operator-post.numberOrPercent" (dict "name" "controller.maxUnavailable" "value" .maxUnavailable) }}
- --restart-backoff={{ .restartBackoff }}
- --restart-backoff-max={{ .restartBackoffMax }}
- --circuit-breaker-threshold={{ include "gpu-operator-post.numberOrPercent" (dict "name" "controller.circuitBreaker.threshold" "value" .circuitBreaker.threshold) }}
- --circuit-breaker-reset={{ .circuitBreaker.reset }}
{{- end }}
- --workload-name={{ include "gpu-operator-post.controllerName" . }}
- --listen=:8080
{{ include "gpu-operator-post.leaseArgs" . }}
{{ include "gpu-operator-post.sharedArgs" . | trim }}
{{- range .Values.controller.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "gpu-operator-post.leaseArgs" -}}
- --lease-name={{ include "gpu-operator-post.fullname" . }}
- --lease-namespace={{ .Release.Namespace }}
{{- end -}}

{{/*
Arguments of both: which plugins are refreshed, and how.
*/}}
{{- define "gpu-operator-post.sharedArgs" -}}
{{- $root := . -}}
{{- range .Values.drivers }}
- {{ printf "--driver=%s" . | quote }}
{{- end }}
{{- with .Values }}
- --plugin-timeout={{ .pluginTimeout }}
- --strategy={{ .strategy }}
- --max-parallel-restarts={{ .maxParallelRestarts | int64 }}
- --on-manual-upgrade={{ .onManualUpgrade }}
- --on-missing-plugin={{ .onMissingPlugin }}
{{- range .refreshAfter }}
- {{ printf "--refresh-after=%s" . | quote }}
{{- end }}
- --log-format={{ .logFormat }}
{{- with .plugin.namespace }}
- {{ printf "--plugin-namespace=%s" . | quote }}
{{- end }}
{{- range include "gpu-operator-post.pluginNames" $root | fromJsonArray }}
- {{ printf "--plugin-name=%s:%s" .driver .name | quote }}
{{- end }}
{{- range include "gpu-operator-post.driverClients" $root | fromJsonArray }}
{{- $which := printf "%s/%s" .namespace .name -}}
{{- if .labels -}}
{{- $pairs := list -}}
{{- range $key, $value := .labels -}}
{{- $pairs = append $pairs (printf "%s=%s" $key $value) -}}
{{- end -}}
{{- $which = join "," $pairs -}}
{{- end }}
- {{ printf "--driver-client=%s:%s" .driver $which | quote }}
{{- end }}
{{- range include "gpu-operator-post.namespaces" $root | fromJsonArray }}
- {{ printf "--namespace=%s" . | quote }}
{{- end }}
{{- range .extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}
