{{/*
Permissions: what the program asks for and no more. docs/security.md gives the reason of each rule.
*/}}

{{/*
The namespaces in which the program may read and restart; empty means all of them.
*/}}
{{- define "gpu-operator-post.namespaces" -}}
{{- with .Values.consumer.namespace -}}
{{- include "gpu-operator-post.checkNamespace" (dict "name" "consumer.namespace" "value" .) -}}
{{- end -}}
{{- range .Values.rbac.namespaces -}}
{{- include "gpu-operator-post.checkNamespace" (dict "name" "rbac.namespaces" "value" .) -}}
{{- end -}}
{{- if and (eq .Values.rbac.scope "namespace") (empty .Values.rbac.namespaces) -}}
{{- fail "rbac.scope is namespace, but rbac.namespaces is empty: name the namespaces of the GPU operator and of the DRA driver." -}}
{{- else if and (eq .Values.rbac.scope "cluster") .Values.rbac.namespaces -}}
{{- fail "rbac.namespaces has an effect only with rbac.scope: namespace. Set the scope, or leave the list empty." -}}
{{- else if and .Values.rbac.namespaces .Values.consumer.namespace (not (has .Values.consumer.namespace .Values.rbac.namespaces)) -}}
{{- fail (printf "consumer.namespace is %q, which rbac.namespaces does not name: the plugins there could not be read." .Values.consumer.namespace) -}}
{{- end -}}
{{- .Values.rbac.namespaces | default list | toJson -}}
{{- end -}}

{{/*
What has no namespace: one rule a stack for its policies, then the nodes and what their plugins publish.
*/}}
{{- define "gpu-operator-post.clusterRules" -}}
{{- $nodes := eq .Values.waitFor "nodes" -}}
{{- range include "gpu-operator-post.stacks" . | fromJsonArray }}
# Stack {{ .name }}: which driver should run.
- apiGroups: [{{ .group }}]
  resources: {{ $nodes | ternary (concat .policies .drivers) .policies | toJson }}
  verbs: [list, watch]
{{- end }}
{{- if $nodes }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
- apiGroups: [resource.k8s.io]
  resources: [resourceslices]
  verbs: [list, watch]
{{- end }}
{{- end -}}

{{/*
What lives in namespaces. With waitFor: policy-ready only what is restarted is read. The writes are those of the chosen
strategy alone; a dry run has none.
*/}}
{{- define "gpu-operator-post.namespacedRules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [daemonsets]
  verbs: [list, watch]
{{- if eq .Values.waitFor "nodes" }}
- apiGroups: [apps]
  resources: [controllerrevisions, deployments, replicasets]
  verbs: [list, watch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [list, watch]
{{- end }}
{{- if not .Values.dryRun }}
{{- if eq .Values.strategy "rollout" }}
# Without the guard: whoever may change a DaemonSet's template may run anything on its nodes.
- apiGroups: [apps]
  resources: [daemonsets]
  verbs: [patch]
{{- else }}
- apiGroups: [""]
  resources: [pods]
  verbs: [delete]
{{- end }}
{{ include "gpu-operator-post.eventRules" . }}
{{- end }}
{{- end -}}

{{- define "gpu-operator-post.eventRules" -}}
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}
