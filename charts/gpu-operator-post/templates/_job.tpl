{{/*
The specification of the Job, by itself because the name of a plain Job has a hash of it. Takes the root context with
jobName in addition.
*/}}
{{- define "gpu-operator-post.jobSpec" -}}
{{- $labels := include "gpu-operator-post.selectorLabels" . | fromYaml -}}
{{- $_ := set $labels "app.kubernetes.io/component" "job" -}}
backoffLimit: {{ .Values.backoffLimit | int64 }}
activeDeadlineSeconds: {{ include "gpu-operator-post.seconds" .Values.timeout }}
{{- if not (kindIs "invalid" .Values.ttlSecondsAfterFinished) }}
ttlSecondsAfterFinished: {{ .Values.ttlSecondsAfterFinished | int64 }}
{{- end }}
podFailurePolicy:
  rules:
    # A retry does not help: 2 is a wrong setting, 3 requires manual action, 124 is out of time.
    - action: FailJob
      onExitCodes:
        containerName: gpu-operator-post
        operator: In
        values: [2, 3, 124]
    # An eviction is no failure of the Job: nodes are drained while drivers reload.
    - action: Ignore
      onPodConditions:
        - type: DisruptionTarget
template:
  metadata:
    labels:
      {{- merge $labels (.Values.podLabels | default dict) (.Values.commonLabels | default dict) | toYaml | nindent 6 }}
    {{- with .Values.podAnnotations }}
    annotations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  spec:
    restartPolicy: Never
    serviceAccountName: {{ include "gpu-operator-post.jobAccount" . | quote }}
    {{- include "gpu-operator-post.podSpec" . | nindent 4 }}
    containers:
      - name: gpu-operator-post
        {{- include "gpu-operator-post.container" . | nindent 8 }}
        args:
          - run
          - --job-name={{ .jobName }}
          - --release-namespace={{ .Release.Namespace }}
          - --release-name={{ include "gpu-operator-post.fullname" . }}
          - --status-name={{ include "gpu-operator-post.statusName" . }}
        env:
          - name: GPU_OPERATOR_POST_CONFIG
            value: >-
              {{ include "gpu-operator-post.jobConfig" . }}
          {{- with .Values.extraEnv }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
        {{- with .Values.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
{{- end -}}

{{/*
The annotations by which Helm, Flux, helmfile and Argo CD run the Job as a hook.
*/}}
{{- define "gpu-operator-post.hookAnnotations" -}}
helm.sh/hook: post-install,post-upgrade{{ if .Values.hook.onRollback }},post-rollback{{ end }}
helm.sh/hook-weight: {{ .Values.hook.weight | int64 | toString | quote }}
helm.sh/hook-delete-policy: {{ .Values.hook.deletePolicy | quote }}
{{- $flux := .Capabilities.APIVersions.Has "helm.toolkit.fluxcd.io/v2" }}
{{- if or (eq .Values.hook.outputLogs "always") (and (eq .Values.hook.outputLogs "auto") (not $flux)) }}
helm.sh/hook-output-log-policy: hook-succeeded,hook-failed
{{- end }}
{{- end -}}
