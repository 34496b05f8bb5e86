{{/*
The pod, which the Job and the controller share. Takes a dict of root, component (job or controller) and args. Values such
as resources and podLabels are the controller's own; all others are shared.
*/}}
{{- define "gpu-operator-post.pod" -}}
{{- $controller := eq .component "controller" -}}
{{- $own := $controller | ternary .root.Values.controller .root.Values -}}
{{- $labels := dict
  "app.kubernetes.io/name" (include "gpu-operator-post.name" .root)
  "app.kubernetes.io/instance" .root.Release.Name
  "app.kubernetes.io/component" .component -}}
metadata:
  labels:
    {{- merge $labels ($own.podLabels | default dict) (.root.Values.commonLabels | default dict) | toYaml | nindent 4 }}
  {{- with $own.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  restartPolicy: {{ $controller | ternary "Always" "Never" }}
  serviceAccountName: {{ include (printf "gpu-operator-post.%sAccount" .component) .root | quote }}
  automountServiceAccountToken: {{ .root.Values.serviceAccount.automountServiceAccountToken }}
  # Enough to report and exit on SIGTERM. Short, because Helm may start the next run while this one ends.
  terminationGracePeriodSeconds: 10
  {{- with include "gpu-operator-post.imagePullSecrets" .root }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with .root.Values.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- range $field, $value := pick .root.Values "affinity" "nodeSelector" "priorityClassName" "runtimeClassName" "tolerations" }}
  {{- with $value }}
  {{- dict $field . | toYaml | nindent 2 }}
  {{- end }}
  {{- end }}
  containers:
    - name: gpu-operator-post
      image: {{ include "gpu-operator-post.image" .root | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args:
        {{- toYaml .args | nindent 8 }}
      env:
        - name: GPU_OPERATOR_POST_CONFIG
          value: >-
            {{ include "gpu-operator-post.config" . }}
        {{- with .root.Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if $controller }}
      ports:
        - {name: metrics, containerPort: 8080, protocol: TCP}
      # Fails only after a minute: a restart fixes a loop that hangs, and does not help one that is slow.
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      # Shows administrators and deployment tools whether the controller acts. No traffic depends on it.
      readinessProbe:
        httpGet: {path: /readyz, port: metrics}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 3
      {{- end }}
      {{- with $own.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      # The program writes a termination message; without one, this shows the end of the log.
      terminationMessagePolicy: FallbackToLogsOnError
      {{- with .root.Values.extraVolumeMounts }}
      volumeMounts:
        {{- toYaml . | nindent 8 }}
      {{- end }}
  {{- with .root.Values.extraVolumes }}
  volumes:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
