{{/*
What the pods of the Job and of the controller have in common, apart from their container.
*/}}
{{- define "gpu-operator-post.podSpec" -}}
automountServiceAccountToken: {{ .Values.serviceAccount.automountServiceAccountToken }}
# Enough to report and exit on SIGTERM. Short, because Helm may start the next run while this one ends.
terminationGracePeriodSeconds: 10
{{- with include "gpu-operator-post.imagePullSecrets" . | fromYamlArray }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- with .Values.extraVolumes }}
volumes:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
What their containers have in common, apart from arguments, settings and resources.
*/}}
{{- define "gpu-operator-post.container" -}}
image: {{ include "gpu-operator-post.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- with .Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
# The program writes a termination message; without one, this shows the end of the log.
terminationMessagePolicy: FallbackToLogsOnError
{{- with .Values.extraVolumeMounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
The image pull secrets of this chart and of all charts, each once: a name, or an object with a name.
*/}}
{{- define "gpu-operator-post.imagePullSecrets" -}}
{{- $secrets := list -}}
{{- range concat ((.Values.global).imagePullSecrets | default list) (.Values.imagePullSecrets | default list) -}}
{{- if kindIs "string" . -}}
{{- $secrets = append $secrets (dict "name" .) -}}
{{- else -}}
{{- $secrets = append $secrets . -}}
{{- end -}}
{{- end -}}
{{- $secrets | uniq | toYaml -}}
{{- end -}}
