{{- /* @@{note} */ -}}
{{- $values := include "gpu-stack.values" (dict "root" . "name" "@@{name}") | fromJson -}}
@@{derived}@@{application}
