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
