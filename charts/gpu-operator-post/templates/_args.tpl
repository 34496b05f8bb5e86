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
- --mode={{ eq .hook.wait "handover" | ternary "delegate" .hook.wait }}
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
{{- range include "gpu-operator-post.regarding" .root | fromJsonArray }}
- {{ printf "--event-target=%s/%s/%s" .resource .namespace .name | quote }}
{{- end }}
{{- if eq .root.Values.hook.wait "handover" }}
{{ include "gpu-operator-post.leaseArgs" .root }}
{{- end }}
{{ include "gpu-operator-post.sharedArgs" .root | trim }}
{{- end -}}

{{/*
Arguments of the controller: its bounds, and where its metrics are.
*/}}
{{- define "gpu-operator-post.followArgs" -}}
{{- with .Values.follow -}}
- controller
- --max-unavailable={{ include "gpu-operator-post.numberOrPercent" (dict "name" "follow.maxUnavailable" "value" .maxUnavailable) }}
- --restart-backoff={{ .restartBackoff }}
- --restart-backoff-max={{ .restartBackoffMax }}
- --circuit-breaker-threshold={{ include "gpu-operator-post.numberOrPercent" (dict "name" "follow.breaker.share" "value" .breaker.share) }}
- --circuit-breaker-reset={{ .breaker.reset }}
{{- end }}
- --workload-name={{ include "gpu-operator-post.followName" . }}
- --listen=:{{ include "gpu-operator-post.followPort" . }}
{{ include "gpu-operator-post.leaseArgs" . }}
{{ include "gpu-operator-post.sharedArgs" . | trim }}
{{- range .Values.follow.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "gpu-operator-post.leaseArgs" -}}
- --lease-name={{ include "gpu-operator-post.leaseName" . }}
- --lease-namespace={{ .Release.Namespace }}
{{- end -}}

{{/*
Arguments of both: which plugins are refreshed, and how.
*/}}
{{- define "gpu-operator-post.sharedArgs" -}}
{{- $root := . -}}
{{- range .Values.stacks }}
- {{ printf "--driver=%s" . | quote }}
{{- end }}
{{- with .Values }}
- --plugin-timeout={{ .pluginTimeout }}
- --strategy={{ get (dict "stale-pods" "delete-stale-pods" "rollout" "rollout-restart") (toString .strategy) }}
- --max-parallel-restarts={{ .maxParallelRestarts | int64 }}
- --on-manual-upgrade={{ .whenManual }}
- --on-missing-plugin={{ .whenAbsent }}
{{- range .providers }}
- {{ printf "--refresh-after=%s" . | quote }}
{{- end }}
- --log-format={{ .logFormat }}
{{- with .consumer.namespace }}
- {{ printf "--plugin-namespace=%s" . | quote }}
{{- end }}
{{- range include "gpu-operator-post.consumerNames" $root | fromJsonArray }}
- {{ printf "--plugin-name=%s:%s" .stack .rest | quote }}
{{- end }}
{{- range include "gpu-operator-post.consumers" $root | fromJsonArray }}
- {{ printf "--driver-client=%s:%s" .stack .rest | quote }}
{{- end }}
{{- range include "gpu-operator-post.namespaces" $root | fromJsonArray }}
- {{ printf "--namespace=%s" . | quote }}
{{- end }}
{{- range .extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}
