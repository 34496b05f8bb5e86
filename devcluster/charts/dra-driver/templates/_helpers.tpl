{{/* nameOverride or the chart's name; the release's name is not used, as in reality. */}}
{{- define "dra-driver.name" -}}
{{- .Values.nameOverride | default (ternary "nvidia-dra-driver-gpu" "dra-driver-nvidia-gpu" (eq .Values.era "old")) }}
{{- end }}

{{- define "dra-driver.labels" -}}
app.kubernetes.io/name: {{ include "dra-driver.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* What both containers have in common. */}}
{{- define "dra-driver.container" -}}
image: {{ .Values.image.repository }}:{{ .Values.image.tag }}
imagePullPolicy: IfNotPresent
securityContext:
  privileged: true
env:
  - name: NVIDIA_DRIVER_ROOT
    value: /run/nvidia/driver
  - name: NODE_NAME
    valueFrom:
      fieldRef:
        fieldPath: spec.nodeName
  - name: NAMESPACE
    valueFrom:
      fieldRef:
        fieldPath: metadata.namespace
volumeMounts:
  - name: plugins-registry
    mountPath: /var/lib/kubelet/plugins_registry
  - name: plugins
    mountPath: /var/lib/kubelet/plugins
    mountPropagation: Bidirectional
  - name: cdi
    mountPath: /var/run/cdi
  - name: driver-root
    mountPath: /driver-root
    mountPropagation: HostToContainer
{{- end }}
