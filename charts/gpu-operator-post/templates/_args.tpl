{{/*
The arguments of the program. Every setting is an explicit flag, so that Job and Deployment show what they run with.
*/}}

{{/*
What a single run is told: its times, what it expects, and its Job. Takes a dict of root and jobName.
*/}}
{{- define "gpu-operator-post.jobArgs" -}}
{{- with .root.Values -}}
- run
- --timeout={{ .timeout }}
- --stall-timeout={{ .stallTimeout }}
- --on-deadline={{ .onDeadline }}
- --wait={{ .hook.wait }}
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
- {{ printf "--regarding=%s/%s/%s" .resource .namespace .name | quote }}
{{- end }}
{{- if eq .root.Values.hook.wait "handover" }}
{{ include "gpu-operator-post.leaseArgs" .root }}
{{- end }}
{{ include "gpu-operator-post.sharedArgs" .root | trim }}
{{- end -}}

{{/*
What the follower is told: how careful it must be, since nobody watches it, and where it is seen.
*/}}
{{- define "gpu-operator-post.followArgs" -}}
{{- with .Values.follow -}}
- run
- --follow
- --max-unavailable={{ include "gpu-operator-post.numberOrPercent" (dict "name" "follow.maxUnavailable" "value" .maxUnavailable) }}
- --restart-backoff={{ .restartBackoff }}
- --restart-backoff-max={{ .restartBackoffMax }}
- --breaker-share={{ include "gpu-operator-post.numberOrPercent" (dict "name" "follow.breaker.share" "value" .breaker.share) }}
- --breaker-reset={{ .breaker.reset }}
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
What both must agree on: what is watched over, what may be restarted and how.
*/}}
{{- define "gpu-operator-post.sharedArgs" -}}
{{- $root := . -}}
{{- range .Values.stacks }}
- {{ printf "--stack=%s" . | quote }}
{{- end }}
{{- with .Values }}
- --plugin-timeout={{ .pluginTimeout }}
- --strategy={{ .strategy }}
- --max-parallel-restarts={{ .maxParallelRestarts | int64 }}
- --when-manual={{ .whenManual }}
- --when-absent={{ .whenAbsent }}
{{- range .providers }}
- {{ printf "--provider=%s" . | quote }}
{{- end }}
- --log-format={{ .logFormat }}
{{- with .consumer.namespace }}
- {{ printf "--consumer-namespace=%s" . | quote }}
{{- end }}
{{- range include "gpu-operator-post.consumerNames" $root | fromJsonArray }}
- {{ printf "--consumer-name=%s:%s" .stack .rest | quote }}
{{- end }}
{{- range include "gpu-operator-post.consumers" $root | fromJsonArray }}
- {{ printf "--consumer=%s:%s" .stack .rest | quote }}
{{- end }}
{{- range include "gpu-operator-post.namespaces" $root | fromJsonArray }}
- {{ printf "--namespace=%s" . | quote }}
{{- end }}
{{- range .extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}
