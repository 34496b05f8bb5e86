{{/*
Who runs the program: the Job, the follower, or both.
*/}}

{{/*
The names of what the follower has; suffixed, and still no longer than a label may be. The Job has the release's own.
*/}}
{{- define "gpu-operator-post.followName" -}}
{{- printf "%s-controller" (include "gpu-operator-post.fullname" . | trunc 52 | trimSuffix "-") -}}
{{- end -}}

{{- define "gpu-operator-post.followPort" -}}
8080
{{- end -}}

{{/*
The Lease by which followers agree on who acts; in the release's namespace. The Job looks there when it delegates.
*/}}
{{- define "gpu-operator-post.leaseName" -}}
{{- include "gpu-operator-post.fullname" . -}}
{{- end -}}

{{/*
The name of a ServiceAccount. Takes a dict of settings (below a value such as serviceAccount), of (that value's name)
and name (what to call it where nothing is said).
*/}}
{{- define "gpu-operator-post.accountName" -}}
{{- if .settings.create -}}
{{- default .name .settings.name -}}
{{- else -}}
{{- required (printf "%[1]s.create is false, so %[1]s.name must name an existing ServiceAccount: the default one would get permission to restart pods." .of) .settings.name -}}
{{- end -}}
{{- end -}}

{{/*
All of them, as a JSON list. Each has an account of its own, and with it permissions of its own.

  part      job or controller, as its pods are labelled
  name      of its roles, and whatever else it has alone
  account   its ServiceAccount
  settings  what the values say of that account
  restarts  whether it may restart plugins: neither a dry run does, nor a Job that delegates to the controller
*/}}
{{- define "gpu-operator-post.workloads" -}}
{{- $all := list -}}
{{- if .Values.enabled -}}
{{- $name := include "gpu-operator-post.fullname" . -}}
{{- $writes := not .Values.dryRun -}}
{{- if .Values.job.enabled -}}
{{- $account := include "gpu-operator-post.accountName" (dict "settings" .Values.serviceAccount "of" "serviceAccount" "name" $name) -}}
{{- $restarts := and $writes (ne .Values.job.mode "delegate") -}}
{{- $all = append $all (dict "part" "job" "name" $name "account" $account "settings" .Values.serviceAccount "restarts" $restarts) -}}
{{- end -}}
{{- if .Values.controller.enabled -}}
{{- $name = include "gpu-operator-post.followName" . -}}
{{- $account := include "gpu-operator-post.accountName" (dict "settings" .Values.controller.serviceAccount "of" "controller.serviceAccount" "name" $name) -}}
{{- $all = append $all (dict "part" "controller" "name" $name "account" $account "settings" .Values.controller.serviceAccount "restarts" $writes) -}}
{{- end -}}
{{- end -}}
{{- $all | toJson -}}
{{- end -}}

{{/*
The entry of a workload in the list, by its part. Takes a dict of root and part.
*/}}
{{- define "gpu-operator-post.workload" -}}
{{- range include "gpu-operator-post.workloads" .root | fromJsonArray -}}
{{- if eq .part $.part -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}
{{- end -}}
