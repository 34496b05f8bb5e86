{{- define "gpu-operator-post.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/*
The name of the release's objects, and of the Lease. A release whose name has the chart's name in it, such as Flux makes
of a target namespace and a name (gpu-operator-gpu-operator-post), does not repeat it.
*/}}
{{- define "gpu-operator-post.fullname" -}}
{{- $name := include "gpu-operator-post.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gpu-operator-post.controllerName" -}}
{{- printf "%s-controller" (include "gpu-operator-post.fullname" . | trunc 52 | trimSuffix "-") -}}
{{- end -}}

{{- define "gpu-operator-post.statusName" -}}
{{- printf "%s-status" (include "gpu-operator-post.fullname" .) -}}
{{- end -}}

{{/*
The name of the Job. A hook keeps its name, by which before-hook-creation finds it. A plain Job cannot be changed, so its
name has a hash of its specification and of the trigger. 52 + 1 + 10 = 63, the most that the label job-name may have.
*/}}
{{- define "gpu-operator-post.jobName" -}}
{{- $fullname := include "gpu-operator-post.fullname" . -}}
{{- if .Values.hook.enabled -}}
{{- $fullname -}}
{{- else -}}
{{- printf "%s-%s" ($fullname | trunc 52 | trimSuffix "-") (include "gpu-operator-post.jobHash" .) -}}
{{- end -}}
{{- end -}}

{{/*
Identifies what a run does: its specification, which has settings and image, and the trigger.
*/}}
{{- define "gpu-operator-post.jobHash" -}}
{{- $spec := include "gpu-operator-post.jobSpec" (merge (dict "jobName" "JOB") .) -}}
{{- printf "%s\n%s" $spec .Values.trigger | sha256sum | trunc 10 -}}
{{- end -}}

{{- define "gpu-operator-post.jobAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "gpu-operator-post.fullname" .) -}}
{{- else -}}
{{- required "serviceAccount.create is false, so serviceAccount.name must name an existing ServiceAccount: the default one would get permission to restart pods." .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "gpu-operator-post.controllerAccount" -}}
{{- $account := .Values.controller.serviceAccount -}}
{{- if $account.create -}}
{{- $account.name | default (include "gpu-operator-post.controllerName" .) -}}
{{- else -}}
{{- required "controller.serviceAccount.create is false, so controller.serviceAccount.name must name an existing ServiceAccount: the default one would get permission to restart pods." $account.name -}}
{{- end -}}
{{- end -}}

{{/*
The namespaces in which pods may be deleted, with commas between them; empty for all namespaces. Plugins are in any
namespace if plugin.namespace is empty, and driver clients if they are selected by labels.
*/}}
{{- define "gpu-operator-post.restartNamespaces" -}}
{{- $namespaces := list (.Values.plugin.namespace | default "") -}}
{{- range .Values.driverClients -}}
{{- $namespaces = append $namespaces (.namespace | default "") -}}
{{- end -}}
{{- if not (has "" $namespaces) -}}
{{- $namespaces | uniq | join "," -}}
{{- end -}}
{{- end -}}

{{- define "gpu-operator-post.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gpu-operator-post.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/*
The labels of every object. Those of the chart win over commonLabels, so that no selector breaks. A label value may not
have the "+" of a chart version.
*/}}
{{- define "gpu-operator-post.labels" -}}
{{- $labels := include "gpu-operator-post.selectorLabels" . | fromYaml -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ = set $labels "app.kubernetes.io/version" (.Chart.AppVersion | replace "+" "_" | trunc 63 | trimAll "-_.") -}}
{{- $_ = set $labels "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimAll "-_.") -}}
{{- merge $labels (omit (.Values.commonLabels | default dict) "app.kubernetes.io/component") | toYaml -}}
{{- end -}}

{{/*
The seconds of a duration such as 90s, 25m or 1h30m.
*/}}
{{- define "gpu-operator-post.seconds" -}}
{{- mustToDate "2006-01-02T15:04Z07:00" "1970-01-01T00:00Z" | mustDateModify . | unixEpoch -}}
{{- end -}}

{{/*
The digest that is set or, without a tag, that of the image which was released with this chart.
*/}}
{{- define "gpu-operator-post.imageDigest" -}}
{{- if or .Values.image.digest .Values.image.tag -}}
{{- .Values.image.digest | default "" -}}
{{- else -}}
{{- index (.Chart.Annotations | default dict) "gpu-operator-post/image-digest" | default "" -}}
{{- end -}}
{{- end -}}

{{- define "gpu-operator-post.image" -}}
{{- $registry := (.Values.global).imageRegistry | default .Values.image.registry | default "" -}}
{{- $name := printf "%s/%s" (trimSuffix "/" $registry) .Values.image.repository | trimPrefix "/" -}}
{{- $digest := include "gpu-operator-post.imageDigest" . -}}
{{- if $digest -}}
{{- printf "%s@%s" $name $digest -}}
{{- else -}}
{{- printf "%s:%s" $name (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/*
Whether to render the admission policies. A cluster that was asked lists its kinds, and an administrator may have turned
this one off. Without a cluster (helm template), only groups are known: each Kubernetes that the chart admits serves it.
*/}}
{{- define "gpu-operator-post.admissionPolicies" -}}
{{- $group := "admissionregistration.k8s.io/v1" -}}
{{- $asked := .Capabilities.APIVersions.Has (printf "%s/ValidatingWebhookConfiguration" $group) -}}
{{- $served := .Capabilities.APIVersions.Has (printf "%s/ValidatingAdmissionPolicy" $group) -}}
{{- if and .Values.enabled .Values.rbac.create .Values.rbac.admissionPolicy.enabled (or $served (not $asked)) -}}
true
{{- end -}}
{{- end -}}

{{/*
Whether to render the rights to write device taint rules, and their policy: a network plugin prepares no claims, and a dry run
writes nothing.
*/}}
{{- define "gpu-operator-post.deviceTaints" -}}
{{- if and .Values.enabled .Values.rbac.create .Values.deviceTaints.enabled (eq .Values.stack "gpu") (not .Values.dryRun) -}}
true
{{- end -}}
{{- end -}}

{{/*
The address of the documents, for links from alerts and from the dashboard: a folder that the values name, or the one of the
repository from which the chart was released. A chart from the sources has none.
*/}}
{{- define "gpu-operator-post.docs" -}}
{{- if .Values.controller.prometheusRule.docsUrl -}}
{{- .Values.controller.prometheusRule.docsUrl | trimSuffix "/" -}}
{{- else if .Chart.Home -}}
{{- printf "%s/blob/v%s/docs" .Chart.Home .Chart.AppVersion -}}
{{- end -}}
{{- end -}}
