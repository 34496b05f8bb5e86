{{/*
The arguments of the program. Every setting is an explicit flag, so that the Job shows what it runs with.
Takes a dict of root and jobName.
*/}}
{{- define "gpu-operator-post.args" -}}
{{- $root := .root -}}
{{- with .root.Values -}}
- run
{{- range .stacks }}
- {{ printf "--stack=%s" . | quote }}
{{- end }}
- --timeout={{ .timeout }}
- --stall-timeout={{ .stallTimeout }}
- --plugin-timeout={{ .pluginTimeout }}
- --on-deadline={{ .onDeadline }}
- --strategy={{ .strategy }}
- --max-parallel-restarts={{ .maxParallelRestarts | int64 }}
- --when-manual={{ .whenManual }}
- --when-absent={{ .whenAbsent }}
- --wait-for={{ .waitFor }}
{{- range .providers }}
- {{ printf "--provider=%s" . | quote }}
{{- end }}
- --log-format={{ .logFormat }}
{{- with .expect.chartVersion }}
- {{ printf "--expect-chart-version=%s" . | quote }}
{{- end }}
{{- with .expect.driverVersion }}
- {{ printf "--expect-driver-version=%s" . | quote }}
{{- end }}
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
{{- if .dryRun }}
- --dry-run
{{- end }}
{{- end }}
- --job-name={{ .jobName }}
- --job-namespace={{ .root.Release.Namespace }}
{{- range .root.Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/*
The container. Exit codes: 2 usage, 3 needs a person, 124 out of time (see podFailurePolicy).
*/}}
{{- define "gpu-operator-post.container" -}}
name: gpu-operator-post
image: {{ include "gpu-operator-post.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args:
  {{- include "gpu-operator-post.args" . | nindent 2 }}
{{- with .root.Values.extraEnv }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
# The program writes its own termination message; this shows the last log lines where it could not.
terminationMessagePolicy: FallbackToLogsOnError
{{- with .root.Values.extraVolumeMounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "gpu-operator-post.podSpec" -}}
restartPolicy: Never
serviceAccountName: {{ include "gpu-operator-post.serviceAccountName" .root }}
automountServiceAccountToken: {{ .root.Values.serviceAccount.automountServiceAccountToken }}
# Enough to report and leave on SIGTERM. Short, because Helm may start the next run beside a run that is ending.
terminationGracePeriodSeconds: 10
{{- with include "gpu-operator-post.imagePullSecrets" .root }}
{{ . }}
{{- end }}
{{- with .root.Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - {{ include "gpu-operator-post.container" . | nindent 4 | trim }}
{{- with .root.Values.extraVolumes }}
volumes:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
The Job's specification, apart from its metadata: a plain Job takes its name from a hash of it.
Takes a dict of root and jobName.
*/}}
{{- define "gpu-operator-post.jobSpec" -}}
backoffLimit: {{ .root.Values.backoffLimit | int64 }}
activeDeadlineSeconds: {{ include "gpu-operator-post.seconds" (dict "name" "timeout" "value" .root.Values.timeout) }}
{{- if not (kindIs "invalid" .root.Values.ttlSecondsAfterFinished) }}
ttlSecondsAfterFinished: {{ .root.Values.ttlSecondsAfterFinished | int64 }}
{{- end }}
podFailurePolicy:
  rules:
    # Trying again would not help: 2 = usage, 3 = needs a person, 124 = out of time.
    - action: FailJob
      onExitCodes:
        containerName: gpu-operator-post
        operator: In
        values: [2, 3, 124]
    # An eviction is not our failure: nodes are drained while drivers reload.
    - action: Ignore
      onPodConditions:
        - type: DisruptionTarget
template:
  metadata:
    labels:
      {{- include "gpu-operator-post.podLabels" .root | nindent 6 }}
    {{- with .root.Values.podAnnotations }}
    annotations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  spec:
    {{- include "gpu-operator-post.podSpec" . | nindent 4 }}
{{- end -}}

{{/*
Annotations of the Job: the hook's, where it is one, then the user's.
*/}}
{{- define "gpu-operator-post.jobAnnotations" -}}
{{- $annotations := dict -}}
{{- if .Values.hook.enabled -}}
{{- $_ := set $annotations "helm.sh/hook" (.Values.hook.onRollback | ternary "post-install,post-upgrade,post-rollback" "post-install,post-upgrade") -}}
{{- $_ := set $annotations "helm.sh/hook-weight" (.Values.hook.weight | int64 | toString) -}}
{{- $_ := set $annotations "helm.sh/hook-delete-policy" .Values.hook.deletePolicy -}}
{{- $flux := .Capabilities.APIVersions.Has "helm.toolkit.fluxcd.io/v2" -}}
{{- if or (eq .Values.hook.outputLogs "always") (and (eq .Values.hook.outputLogs "auto") (not $flux)) -}}
{{- $_ := set $annotations "helm.sh/hook-output-log-policy" "hook-succeeded,hook-failed" -}}
{{- end -}}
{{- $annotations = merge $annotations (.Values.hook.annotations | default dict) -}}
{{- end -}}
{{- with merge $annotations (.Values.jobAnnotations | default dict) -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}
