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
  {{- include "gpu-operator-post.podTemplate" (dict
    "root" .root
    "workload" (include "gpu-operator-post.workload" (dict "root" .root "part" "job") | fromJson)
    "args" (include "gpu-operator-post.jobArgs" .)
    "restart" "Never"
    "resources" .root.Values.resources
    "labels" .root.Values.podLabels
    "annotations" .root.Values.podAnnotations
  ) | nindent 2 }}
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
