{{/*
The follower's Deployment.
*/}}

{{/*
What tells its pods from the Job's.
*/}}
{{- define "gpu-operator-post.followSelectorLabels" -}}
{{ include "gpu-operator-post.selectorLabels" . }}
app.kubernetes.io/component: controller
{{- end -}}

{{/*
The port and the probes. Liveness fails only after a minute: a restart mends a loop that hangs, and does not help one that
is slow. Readiness also says whether it acts; nothing is routed by it, but people and deployers look there.
*/}}
{{- define "gpu-operator-post.followServes" -}}
ports:
  - name: metrics
    containerPort: {{ include "gpu-operator-post.followPort" . }}
    protocol: TCP
livenessProbe:
  httpGet:
    path: /healthz
    port: metrics
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /readyz
    port: metrics
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 3
{{- end -}}

{{- define "gpu-operator-post.followSpec" -}}
replicas: {{ .Values.controller.replicas | int64 }}
# The old one releases the Lease when it ends, within two seconds: beside it, a new one would only wait for that.
strategy:
  type: Recreate
selector:
  matchLabels:
    {{- include "gpu-operator-post.followSelectorLabels" . | nindent 4 }}
template:
  {{- include "gpu-operator-post.podTemplate" (dict
    "root" .
    "workload" (include "gpu-operator-post.workload" (dict "root" . "part" "controller") | fromJson)
    "args" (include "gpu-operator-post.followArgs" .)
    "restart" "Always"
    "serves" (include "gpu-operator-post.followServes" .)
    "resources" .Values.controller.resources
    "labels" .Values.controller.podLabels
    "annotations" .Values.controller.podAnnotations
  ) | nindent 2 }}
{{- end -}}

{{/*
Where the documentation of this version is, for links to runbooks: a released chart knows its repository.
*/}}
{{- define "gpu-operator-post.docsUrl" -}}
{{- if .Values.controller.prometheusRule.docsUrl -}}
{{- .Values.controller.prometheusRule.docsUrl | trimSuffix "/" -}}
{{- else if .Chart.Home -}}
{{- printf "%s/blob/v%s/docs" .Chart.Home .Chart.AppVersion -}}
{{- else -}}
docs
{{- end -}}
{{- end -}}
