{{/*
Permissions: what the program asks for and no more. docs/security.md gives the reason of each rule.
*/}}

{{/*
The namespaces in which the program may read and restart; empty means all of them.
*/}}
{{- define "gpu-operator-post.namespaces" -}}
{{- with .Values.plugin.namespace -}}
{{- include "gpu-operator-post.checkNamespace" (dict "name" "plugin.namespace" "value" .) -}}
{{- end -}}
{{- range .Values.rbac.namespaces -}}
{{- include "gpu-operator-post.checkNamespace" (dict "name" "rbac.namespaces" "value" .) -}}
{{- end -}}
{{- if and (eq .Values.rbac.scope "namespace") (empty .Values.rbac.namespaces) -}}
{{- fail "rbac.scope is namespace, but rbac.namespaces is empty: name the namespaces of the GPU operator and of the DRA driver." -}}
{{- else if and (eq .Values.rbac.scope "cluster") .Values.rbac.namespaces -}}
{{- fail "rbac.namespaces has an effect only with rbac.scope: namespace. Set the scope, or leave the list empty." -}}
{{- else if and .Values.rbac.namespaces .Values.plugin.namespace (not (has .Values.plugin.namespace .Values.rbac.namespaces)) -}}
{{- fail (printf "plugin.namespace is %q, which rbac.namespaces does not name: the plugins there could not be read." .Values.plugin.namespace) -}}
{{- end -}}
{{- .Values.rbac.namespaces | default list | toJson -}}
{{- end -}}

{{/*
What has no namespace: one rule a stack for its policies, then the nodes and what their plugins publish.
*/}}
{{- define "gpu-operator-post.clusterRules" -}}
{{- range include "gpu-operator-post.stacks" . | fromJsonArray }}
# Stack {{ .name }}: which driver should run.
- apiGroups: [{{ .group }}]
  resources: {{ concat .policies .drivers | toJson }}
  verbs: [list, watch]
{{- end }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
- apiGroups: [resource.k8s.io]
  resources: [resourceslices]
  verbs: [list, watch]
{{- end -}}

{{/*
What lives in namespaces. The writes are those of the chosen strategy alone, and only of the account that restarts
anything; a dry run has none. Takes a dict of root and workload.
*/}}
{{- define "gpu-operator-post.namespacedRules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [daemonsets]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [controllerrevisions, deployments, replicasets]
  verbs: [list, watch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [list, watch]
{{- if .workload.restarts }}
{{- if eq .root.Values.strategy "rollout-restart" }}
# Without the guard: whoever may change a DaemonSet's template may run anything on its nodes.
- apiGroups: [apps]
  resources: [daemonsets]
  verbs: [patch]
{{- else }}
- apiGroups: [""]
  resources: [pods]
  verbs: [delete]
{{- end }}
{{- end }}
{{- if not .root.Values.dryRun }}
{{ include "gpu-operator-post.eventRules" . }}
{{- end }}
{{- end -}}

{{/*
What it may do in the release's namespace with what is its own. The Job reads when it started: retries share one deadline,
which counts from then. The follower tells its story on its Deployment, and agrees by a Lease on who acts; the name of
what is created cannot be held by a role, so there the guard holds it. Takes a dict of root and workload.
*/}}
{{- define "gpu-operator-post.ownRules" -}}
{{- $lease := include "gpu-operator-post.leaseName" .root -}}
{{- if eq .workload.part "job" }}
- apiGroups: [batch]
  resources: [jobs]
  resourceNames: [{{ include "gpu-operator-post.jobName" .root }}]
  verbs: [get]
{{- if eq .root.Values.job.mode "delegate" }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ $lease }}]
  verbs: [get]
{{- end }}
{{- else }}
- apiGroups: [apps]
  resources: [deployments]
  resourceNames: [{{ .workload.name }}]
  verbs: [get]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ $lease }}]
  verbs: [get, patch]
{{- end }}
{{- end -}}

{{- define "gpu-operator-post.eventRules" -}}
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/*
Whom a role is bound to. Takes a dict of root and workload.
*/}}
{{- define "gpu-operator-post.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: {{ .workload.account }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}
