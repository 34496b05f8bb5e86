{{- define "network-operator.selectorLabels" -}}
app.kubernetes.io/name: network-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* What all objects of the chart carry; helm.sh/chart names the real chart's version. */}}
{{- define "network-operator.labels" -}}
helm.sh/chart: network-operator-{{ .Values.chartVersion }}
{{ include "network-operator.selectorLabels" . }}
app.kubernetes.io/version: v{{ .Values.chartVersion }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
