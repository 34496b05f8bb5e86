{{/* What all objects of the chart carry; helm.sh/chart names the real chart's version. */}}
{{- define "gpu-operator.labels" -}}
app.kubernetes.io/name: gpu-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Values.chartVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/component: gpu-operator
helm.sh/chart: gpu-operator-{{ .Values.chartVersion }}
{{- end }}
