{{/*
Where the cluster says that it does not serve the kind, the account would be unconfined without anybody having said so:
that is refused. A dry run has no right that wants confining.
*/}}
{{- define "gpu-operator-post.checkGuard" -}}
{{- if and .Values.rbac.create .Values.rbac.admissionPolicy.enabled (not .Values.dryRun) (not (include "gpu-operator-post.admissionPolicies" .)) -}}
{{- fail "rbac.admissionPolicy.enabled is true, but this cluster does not serve ValidatingAdmissionPolicies: without the guard this ServiceAccount may restart anything that RBAC lets it reach. Have them served, or set rbac.admissionPolicy.enabled=false if that is meant." -}}
{{- end -}}
{{- end -}}
