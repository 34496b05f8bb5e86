{{/*
Mistakes that deserve a sentence, and those between several values. All others are the schema's: each rule stands in one
place. The program checks its settings in addition, such as components that the stack does not have.
*/}}
{{- define "gpu-operator-post.validate" -}}
{{- $problems := list -}}
{{- if not .Values.image.repository -}}
{{- $problems = append $problems "image.repository is empty: this chart is from the sources, which name no image. Build the image (make image), push it where your nodes pull from, and set image.registry and image.repository; or install a released chart." -}}
{{- end -}}
{{- if lt (include "gpu-operator-post.seconds" .Values.timeout | int64) 30 -}}
{{- $problems = append $problems (printf "timeout is %q: at least 30s, because one plugin needs that long to restart and to be verified." .Values.timeout) -}}
{{- end -}}
{{- if not (or .Values.job.enabled .Values.controller.enabled) -}}
{{- $problems = append $problems "job.enabled and controller.enabled are false, so nothing would run: enable one of them, or set enabled to false to leave the release empty." -}}
{{- end -}}
{{- if and .Values.controller.enabled .Values.dryRun -}}
{{- $problems = append $problems "dryRun evaluates once, but a controller has no end: set controller.enabled to false for a dry run." -}}
{{- end -}}
{{- if and .Values.job.enabled .Values.controller.enabled (eq (include "gpu-operator-post.jobAccount" .) (include "gpu-operator-post.controllerAccount" .)) -}}
{{- $problems = append $problems "The Job and the controller would share a ServiceAccount, and with it their permissions: set controller.serviceAccount.name to another name." -}}
{{- end -}}
{{- range .Values.driverClients -}}
{{- if or (and .labels (or .namespace .name)) (not (or .labels (and .namespace .name))) -}}
{{- $problems = append $problems (printf "driverClients has the entry %s: set either namespace and name, or labels." (toJson .)) -}}
{{- end -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if hasPrefix "GPU_OPERATOR_POST_" .name -}}
{{- $problems = append $problems (printf "extraEnv has %s: the chart sets the variables of the program from its values." .name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.rbac.create .Values.rbac.admissionPolicy.enabled (not .Values.dryRun) (not (include "gpu-operator-post.admissionPolicies" .)) -}}
{{- $problems = append $problems "rbac.admissionPolicy.enabled is true, but this cluster does not serve ValidatingAdmissionPolicies: without them, the ServiceAccount may restart anything that RBAC lets it reach. Serve them, or set rbac.admissionPolicy.enabled to false." -}}
{{- end -}}
{{- with $problems -}}
{{- fail (join "\n" .) -}}
{{- end -}}
{{- end -}}
