{{/*
Names
*/}}

{{- define "gpu-operator-post.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/*
The full name of the release's objects. A release that already carries the chart's name (as
gpu-operator-gpu-operator-post, which Flux makes of a target namespace and a name) is not named twice.
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

{{/*
The name of cluster-scoped objects: two releases of one name may live in two namespaces. A colon separates, because
neither part can hold one. Takes a dict of root and name.
*/}}
{{- define "gpu-operator-post.clusterName" -}}
{{- printf "%s:%s" .root.Release.Namespace .name -}}
{{- end -}}

{{/*
Ten digits of a hash over everything that makes a plain Job another Job: its specification (which names the Job
itself in its arguments, hence the placeholder) and the trigger.
*/}}
{{- define "gpu-operator-post.jobHash" -}}
{{- $spec := include "gpu-operator-post.jobSpec" (dict "root" . "jobName" "JOB") -}}
{{- printf "%s\n%s" $spec .Values.trigger | sha256sum | trunc 10 -}}
{{- end -}}

{{/*
The name of the Job. As a hook it is stable, so that before-hook-creation finds the last one; a plain Job is
immutable and changes its name instead. 52 + 1 + 10 = 63, the most that the label job-name of its pods may have.
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
Labels
*/}}

{{/*
Make a text a label value: a chart version may hold a "+" (Flux appends a digest so), which a label value may not.
*/}}
{{- define "gpu-operator-post.labelValue" -}}
{{- regexReplaceAll "[^A-Za-z0-9._-]" . "_" | trunc 63 | trimAll "-_." -}}
{{- end -}}

{{- define "gpu-operator-post.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gpu-operator-post.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/*
Labels of every object. Ours win over the user's, so that none is written twice and no selector breaks.
*/}}
{{- define "gpu-operator-post.labels" -}}
{{- $ours := include "gpu-operator-post.selectorLabels" . | fromYaml -}}
{{- $_ := set $ours "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $ours "app.kubernetes.io/version" (include "gpu-operator-post.labelValue" .Chart.AppVersion) -}}
{{- $_ := set $ours "helm.sh/chart" (include "gpu-operator-post.labelValue" (printf "%s-%s" .Chart.Name .Chart.Version)) -}}
{{- merge $ours (.Values.commonLabels | default dict) | toYaml -}}
{{- end -}}

{{/*
Labels of a pod, as in the pod's template. No chart version here: it would give a plain Job a new name, and a second run,
for a chart that renders the same Job.
*/}}
{{- define "gpu-operator-post.podLabels" -}}
{{- $ours := include "gpu-operator-post.selectorLabels" .root | fromYaml -}}
{{- $_ := set $ours "app.kubernetes.io/component" .workload.part -}}
{{- merge $ours (.labels | default dict) (.root.Values.commonLabels | default dict) | toYaml -}}
{{- end -}}

{{/*
Values
*/}}

{{/*
The seconds of a duration such as 90s, 25m or 1h30m.
*/}}
{{- define "gpu-operator-post.seconds" -}}
{{- mustToDate "2006-01-02T15:04Z07:00" "1970-01-01T00:00Z" | mustDateModify . | unixEpoch -}}
{{- end -}}

{{/*
The image's name without tag and digest: registry/repository.
*/}}
{{- define "gpu-operator-post.imageName" -}}
{{- $registry := (.Values.global).imageRegistry | default .Values.image.registry -}}
{{- trimPrefix "/" (printf "%s/%s" (default "" $registry | trimSuffix "/") .Values.image.repository) -}}
{{- end -}}

{{/*
The image's digest: the one that is given, or the one that was released with this chart, which no tag stands for then.
*/}}
{{- define "gpu-operator-post.imageDigest" -}}
{{- if or .Values.image.digest .Values.image.tag -}}
{{- .Values.image.digest -}}
{{- else -}}
{{- index (.Chart.Annotations | default dict) "gpu-operator-post/image-digest" | default "" -}}
{{- end -}}
{{- end -}}

{{/*
The image reference: registry/repository@digest, or registry/repository:tag.
*/}}
{{- define "gpu-operator-post.image" -}}
{{- $repository := include "gpu-operator-post.imageName" . -}}
{{- $digest := include "gpu-operator-post.imageDigest" . -}}
{{- if $digest -}}
{{- printf "%s@%s" $repository $digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/*
Pull secrets of this chart and of all charts, each once, given as a name or as an object with a name.
*/}}
{{- define "gpu-operator-post.imagePullSecrets" -}}
{{- $names := list -}}
{{- range concat ((.Values.global).imagePullSecrets | default list) (.Values.imagePullSecrets | default list) -}}
{{- $names = append $names (kindIs "map" . | ternary . (dict "name" .)) -}}
{{- end -}}
{{- with uniq $names -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}
