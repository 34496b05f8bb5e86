{{/*
The pod, which Job and Deployment share. What differs is taken from a dict:

  root       the root context
  workload   its entry in the list of workloads
  args       the arguments, as YAML
  restart    the pod's restartPolicy
  resources  of the container
  serves     more of the container, as YAML: ports and probes
  labels, annotations  of the user's own
*/}}

{{/*
The container. Exit codes: 2 usage, 3 needs a person, 124 out of time (see podFailurePolicy).
*/}}
{{- define "gpu-operator-post.container" -}}
name: gpu-operator-post
image: {{ include "gpu-operator-post.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args:
  {{- .args | nindent 2 }}
env:
  - name: GPU_OPERATOR_POST_CONFIG
    value: {{ include "gpu-operator-post.config" .root | quote }}
  {{- with .root.Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .serves }}
{{ . }}
{{- end }}
{{- with .resources }}
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
restartPolicy: {{ .restart }}
serviceAccountName: {{ .workload.account }}
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

{{- define "gpu-operator-post.podTemplate" -}}
metadata:
  labels:
    {{- include "gpu-operator-post.podLabels" . | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- include "gpu-operator-post.podSpec" . | nindent 2 }}
{{- end -}}
