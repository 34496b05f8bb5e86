{{/*
What the schema cannot say in a sentence, or cannot see because it concerns several values. Also where a tool skips the
schema: nothing here may reach a permission or a CEL expression unchecked.
*/}}

{{/*
A name that a DaemonSet can have. Takes a dict of name (of the value), value and part (what to check of it).
*/}}
{{- define "gpu-operator-post.checkObjectName" -}}
{{- if or (gt (len .part) 253) (not (regexMatch "^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$" .part)) -}}
{{- fail (printf "%s holds %q, which names no DaemonSet: a name has small letters, digits, dots and hyphens, at most 253." .name .value) -}}
{{- end -}}
{{- end -}}

{{- define "gpu-operator-post.checkNamespace" -}}
{{- if not (regexMatch "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" .value) -}}
{{- fail (printf "%s holds %q, which is no namespace: a name has small letters, digits and hyphens, at most 63." .name .value) -}}
{{- end -}}
{{- end -}}

{{/*
A reference that no runtime can read gives a pod that waits for ever (InvalidImageName), and a release that hangs.
A name is an optional host with an optional port, then parts in small letters.
*/}}
{{- define "gpu-operator-post.checkImage" -}}
{{- $host := "[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[[][0-9A-Fa-f:]+[]]" -}}
{{- $part := "[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*" -}}
{{- $name := include "gpu-operator-post.imageName" . -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository is empty: a chart from the sources names no image, because no registry is the project's own. Build the image (make image), push it where your nodes pull from, and set image.registry and image.repository; or install a released chart, which names its own." -}}
{{- end -}}
{{- if not (regexMatch (printf "^((%s)(:[0-9]+)?/)?%s(/%s)*$" $host $part $part) $name) -}}
{{- fail (printf "image.registry (or global.imageRegistry) and image.repository make %q, which names no image: a registry is a host without a scheme, a repository has small letters, and a tag or digest belongs in image.tag or image.digest." $name) -}}
{{- end -}}
{{- if not (regexMatch "^([A-Za-z0-9_][A-Za-z0-9._-]{0,127})?$" .Values.image.tag) -}}
{{- fail (printf "image.tag is %q, which is no tag: letters, digits, dots, underscores and hyphens, at most 128; a digest belongs in image.digest." .Values.image.tag) -}}
{{- end -}}
{{- $digest := include "gpu-operator-post.imageDigest" . -}}
{{- if not (regexMatch "^(sha256:[a-f0-9]{64})?$" $digest) -}}
{{- fail (printf "image.digest is %q, which is no digest: \"sha256:\" and 64 digits of 0-9 and a-f." $digest) -}}
{{- end -}}
{{- end -}}

{{/*
Below 30 s no run that restarts anything can end well: the fastest plugin takes 10 s to come back, the operator must be
quiet for 15 s, and the program keeps 5 s for its report. That is a bound, and no advice: pulling the image and starting
the pod count as well.
*/}}
{{- define "gpu-operator-post.checkTimeout" -}}
{{- $seconds := include "gpu-operator-post.seconds" (dict "name" "timeout" "value" .Values.timeout) | int64 -}}
{{- if lt $seconds 30 -}}
{{- fail (printf "timeout is %q, too short for even one plugin to restart and be verified: 30s is the least, and a fleet needs about two minutes a node." .Values.timeout) -}}
{{- end -}}
{{- $_ := include "gpu-operator-post.duration" (dict "name" "stallTimeout" "value" .Values.stallTimeout) -}}
{{- $plugin := include "gpu-operator-post.seconds" (dict "name" "pluginTimeout" "value" .Values.pluginTimeout) | int64 -}}
{{- /* Its default is no one's choice: beside a short timeout it does no harm. */ -}}
{{- if and .Values.job.enabled (gt $plugin $seconds) (ne $plugin 300) -}}
{{- fail (printf "pluginTimeout is %q, longer than the whole run may take (timeout is %q): it would never act." .Values.pluginTimeout .Values.timeout) -}}
{{- end -}}
{{- end -}}

{{/*
Values of which there are few: some choose permissions, and the program knows no others. Takes a dict of name, value and
choices.
*/}}
{{- define "gpu-operator-post.checkChoice" -}}
{{- if not (has .value .choices) -}}
{{- fail (printf "%s is %q: choose among %s." .name (toString .value) (join ", " .choices)) -}}
{{- end -}}
{{- end -}}

{{- define "gpu-operator-post.checkChoices" -}}
{{- include "gpu-operator-post.checkChoice" (dict "name" "strategy" "value" .Values.strategy "choices" (list "delete-stale-pods" "rollout-restart")) -}}
{{- include "gpu-operator-post.checkChoice" (dict "name" "rbac.scope" "value" .Values.rbac.scope "choices" (list "cluster" "namespace")) -}}
{{- include "gpu-operator-post.checkChoice" (dict "name" "onDeadline" "value" .Values.onDeadline "choices" (list "fail" "report")) -}}
{{- include "gpu-operator-post.checkChoice" (dict "name" "onManualUpgrade" "value" .Values.onManualUpgrade "choices" (list "report" "wait" "fail")) -}}
{{- include "gpu-operator-post.checkChoice" (dict "name" "onMissingPlugin" "value" .Values.onMissingPlugin "choices" (list "skip" "wait")) -}}
{{- include "gpu-operator-post.checkChoice" (dict "name" "job.mode" "value" .Values.job.mode "choices" (list "complete" "delegate")) -}}
{{- include "gpu-operator-post.checkChoice" (dict "name" "logFormat" "value" .Values.logFormat "choices" (list "text" "json")) -}}
{{- if lt (.Values.maxParallelRestarts | int64) 0 -}}
{{- fail (printf "maxParallelRestarts is %v: 0 is no bound, and less means nothing." .Values.maxParallelRestarts) -}}
{{- end -}}
{{- end -}}

{{/*
Values that mean nothing together: the program refuses them too, but only when it runs, and that is after everything
else was changed. Whoever sets a value relies on it, so none is silently left out.
*/}}
{{- define "gpu-operator-post.checkTogether" -}}
{{- $prerequisites := list -}}
{{- $chart := false -}}
{{- range include "gpu-operator-post.stacks" . | fromJsonArray -}}
{{- $prerequisites = concat $prerequisites .prerequisites -}}
{{- if has "chart" .tells -}}
{{- $chart = true -}}
{{- end -}}
{{- end -}}
{{- range .Values.refreshAfter -}}
{{- if not (has . $prerequisites) -}}
{{- fail (printf "refreshAfter names %q, which no driver in drivers knows: add its driver, or remove the entry." .) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.expect.chartVersion (not $chart) -}}
{{- fail "expect.chartVersion is set, but no policy of the drivers in drivers shows its chart version: the run could never see it. Leave it empty, or add the driver gpu." -}}
{{- end -}}
{{- end -}}

{{/*
The follower: bounds that the program would refuse too, when it starts, again and again; and what cannot stand beside it.
*/}}
{{- define "gpu-operator-post.checkFollow" -}}
{{- if not (or .Values.job.enabled .Values.controller.enabled) -}}
{{- fail "job.enabled is false, and so is controller.enabled: nothing would run. Enable one of them, or set enabled=false to leave the release empty." -}}
{{- end -}}
{{- if and (eq .Values.job.mode "delegate") (not .Values.controller.enabled) -}}
{{- fail "job.mode is delegate, but controller.enabled is false: there is no controller to delegate to. Enable the controller, or set job.mode to complete." -}}
{{- end -}}
{{- with .Values.controller -}}
{{- if lt (.replicas | int64) 1 -}}
{{- fail (printf "controller.replicas is %v: at least 1; controller.enabled=false renders no follower." .replicas) -}}
{{- end -}}
{{- $first := include "gpu-operator-post.seconds" (dict "name" "controller.restartBackoff" "value" .restartBackoff) | int64 -}}
{{- $longest := include "gpu-operator-post.seconds" (dict "name" "controller.restartBackoffMax" "value" .restartBackoffMax) | int64 -}}
{{- if gt $first $longest -}}
{{- fail (printf "controller.restartBackoff is %q, longer than the longest, controller.restartBackoffMax (%q)." .restartBackoff .restartBackoffMax) -}}
{{- end -}}
{{- $most := include "gpu-operator-post.numberOrPercent" (dict "name" "controller.maxUnavailable" "value" .maxUnavailable) -}}
{{- if regexMatch "^0+%?$" $most -}}
{{- fail (printf "controller.maxUnavailable is %q: nothing could be restarted at all." $most) -}}
{{- end -}}
{{- $_ := list
  (include "gpu-operator-post.duration" (dict "name" "controller.circuitBreaker.reset" "value" .circuitBreaker.reset))
  (include "gpu-operator-post.numberOrPercent" (dict "name" "controller.circuitBreaker.threshold" "value" .circuitBreaker.threshold))
-}}
{{- /* Prometheus forgets a sample after 5 minutes: one scrape may fail in between. */ -}}
{{- $interval := include "gpu-operator-post.seconds" (dict "name" "controller.podMonitor.interval" "value" .podMonitor.interval) | int64 -}}
{{- if gt $interval 120 -}}
{{- fail (printf "controller.podMonitor.interval is %q: 2m is the most, or alerts would end and begin anew between two scrapes." .podMonitor.interval) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.controller.enabled .Values.dryRun -}}
{{- fail "dryRun decides once, and a follower is never done: leave controller.enabled=false for a dry run." -}}
{{- end -}}
{{- if and .Values.job.enabled .Values.controller.enabled (eq (include "gpu-operator-post.jobAccount" .) (include "gpu-operator-post.controllerAccount" .)) -}}
{{- fail (printf "Job and follower would share the ServiceAccount %q, and with it their permissions: give controller.serviceAccount.name another name." (include "gpu-operator-post.jobAccount" .)) -}}
{{- end -}}
{{- end -}}

{{/*
Flags on which the permissions, the guard and the probes depend: as an argument they would take effect without them. And
flags that one of the two alone takes, where the other gets them: it would not even start. And the follower's own: the last
argument wins, so that other bounds would be obeyed than those that are checked.
*/}}
{{- define "gpu-operator-post.checkExtras" -}}
{{- $values := dict "strategy" "strategy" "driver" "drivers" "plugin-name" "plugin.names" "driver-client" "driverClients" "plugin-namespace" "plugin.namespace" "namespace" "rbac.namespaces" "event-target" "eventTargets" "refresh-after" "refreshAfter" "dry-run" "dryRun" "mode" "job.mode" "lease-name" "fullnameOverride" "workload-name" "fullnameOverride" "job-name" "fullnameOverride" "lease-namespace" "controller.enabled" "listen" "controller.enabled" -}}
{{- $follower := dict "restart-backoff" "controller.restartBackoff" "restart-backoff-max" "controller.restartBackoffMax" "circuit-breaker-threshold" "controller.circuitBreaker.threshold" "circuit-breaker-reset" "controller.circuitBreaker.reset" -}}
{{- $unavailable := dict "max-unavailable" "controller.maxUnavailable" -}}
{{- $job := dict "expect-chart-version" "expect.chartVersion" "expect-driver-version" "expect.driverVersion" "on-deadline" "onDeadline" -}}
{{- $times := dict "timeout" "timeout" "stall-timeout" "stallTimeout" "api-patience" "extraEnv" -}}
{{- $both := .Values.controller.enabled | ternary (merge dict $job $times) dict -}}
{{- /* There is no value that bounds a Job so. Beside a follower the environment does: its own argument wins over that. */ -}}
{{- $bounds := .Values.controller.enabled | ternary (merge dict $follower $unavailable) $follower -}}
{{- $given := list -}}
{{- range .Values.extraArgs -}}
{{- $given = append $given (dict "list" "extraArgs" "text" . "value" (regexReplaceAll "^[^=]*=?" . "") "follower" $bounds "job" $both) -}}
{{- end -}}
{{- range .Values.controller.extraArgs -}}
{{- $given = append $given (dict "list" "controller.extraArgs" "text" . "value" "" "follower" (merge dict $follower $unavailable) "job" (merge dict $job $times)) -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if hasPrefix "GPU_OPERATOR_POST_" .name -}}
{{- $given = append $given (dict "list" "extraEnv" "text" .name "value" (.value | default "" | toString) "follower" $follower "job" dict) -}}
{{- end -}}
{{- end -}}
{{- range $given -}}
{{- $flag := regexReplaceAll "=.*" .text "" | trimPrefix "--" -}}
{{- if eq .list "extraEnv" -}}
{{- $flag = .text | trimPrefix "GPU_OPERATOR_POST_" | lower | replace "_" "-" -}}
{{- else if not (hasPrefix "--" .text) -}}
{{- $flag = "" -}}
{{- end -}}
{{- if hasKey $values $flag -}}
{{- fail (printf "%s holds %q, but permissions, guard and probes follow the value %s: set that one instead." .list .text (get $values $flag)) -}}
{{- end -}}
{{- if eq $flag "identity" -}}
{{- fail (printf "%s holds %q, but followers of one identity would all lead at once: leave it out, each pod has its own." .list .text) -}}
{{- end -}}
{{- if hasKey .follower $flag -}}
{{- fail (printf "%s holds %q, but the follower alone takes that, from the value %s: set that one instead." .list .text (get .follower $flag)) -}}
{{- end -}}
{{- if hasKey .job $flag -}}
{{- fail (printf "%s holds %q, which the follower would get, and is never done: the Job takes it from the value %s, set that one instead." .list .text (get .job $flag)) -}}
{{- end -}}
{{- if and (eq $flag "max-unavailable") (regexMatch "^0+%?$" .value) -}}
{{- fail (printf "%s holds %q with the value %q: nothing could be restarted at all." .list .text .value) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Everything that is checked. What is rendered uses the same templates, so that a check cannot be forgotten; this only
makes sure that each is asked, whatever else is left out of a rendering.
*/}}
{{- define "gpu-operator-post.checks" -}}
{{- $_ := list
  (include "gpu-operator-post.checkImage" .)
  (include "gpu-operator-post.checkTimeout" .)
  (include "gpu-operator-post.checkChoices" .)
  (include "gpu-operator-post.checkTogether" .)
  (include "gpu-operator-post.checkFollow" .)
  (include "gpu-operator-post.checkGuard" .)
  (include "gpu-operator-post.checkExtras" .)
  (include "gpu-operator-post.namespaces" .)
  (include "gpu-operator-post.pluginNames" .)
  (include "gpu-operator-post.driverClients" .)
-}}
{{- end -}}
