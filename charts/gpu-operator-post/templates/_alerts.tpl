{{/*
The alerts of the controller, as a YAML list. A comment has the reason of each number. docs/operations.md has a runbook
for each alert, under its name.

A PodMonitor adds `namespace` and `pod`. Another way to scrape must add them, too.
*/}}
{{- define "gpu-operator-post.alerts" -}}
{{- $ours := printf "namespace=%q" .Release.Namespace }}
{{- /* Kubernetes notices a lost node after 40 s, and replaces its pod after another 300 s. A new pod leads within a
minute, including the time to pull the image. A restart in place, or a change of leaders, takes seconds. */}}
- alert: GPUOperatorPostControllerMissing
  expr: absent(gpu_operator_post_leader{ {{- $ours -}} } == 1)
  for: 10m
  severity: critical
  summary: No controller is active
  description: >-
    No pod of {{ include "gpu-operator-post.followName" . }} in {{ .Release.Namespace }} has held its Lease for 10
    minutes. Plugins that become stale stay stale: new GPU pods fail on their nodes.
{{- /* A replica that cannot renew the Lease for 10 s exits and starts again. The upgrade of a control plane with
three nodes causes this three times. Every process has the first metric; only the controller has the second. */}}
- alert: GPUOperatorPostControllerRestarting
  expr: >-
    changes(process_start_time_seconds{ {{- $ours -}} }[1h]) > 5
    and on (namespace, pod) max_over_time(gpu_operator_post_build_info{ {{- $ours -}} }[1h])
  severity: warning
  summary: The controller keeps restarting
  description: {{`>-
    Pod {{ $labels.pod }} in {{ $labels.namespace }} has started {{ $value }} times more within an hour. Meanwhile,
    stale plugins are refreshed late or not at all.`}}
{{- /* A reconcile takes a second or two, and reading 5,000 nodes takes 20 s. The liveness probe ends a loop that
hangs after three minutes. If this lasts longer, the start does not finish. */}}
- alert: GPUOperatorPostNoProgress
  expr: >-
    gpu_operator_post_leader{ {{- $ours -}} } == 1
    and on (namespace, pod) time() - gpu_operator_post_last_reconcile_timestamp_seconds{ {{- $ours -}} } > 180
  for: 5m
  severity: warning
  summary: The controller leads, but finishes no reconcile
  description: {{`>-
    Pod {{ $labels.pod }} in {{ $labels.namespace }} holds the Lease, and has not evaluated the fleet for more than
    three minutes. Nothing is restarted meanwhile.`}}
{{- /* A control plane restarts within a minute. A rotated token is read within another minute. */}}
- alert: GPUOperatorPostBlind
  expr: max by (namespace, pod) (gpu_operator_post_cache_out_of_sync_seconds{ {{- $ours -}} }) > 300
  severity: warning
  summary: The controller cannot read the cluster
  description: {{`>-
    Pod {{ $labels.pod }} in {{ $labels.namespace }} has been unable to read some kind of object for
    {{ $value | humanizeDuration }}. Nothing is restarted meanwhile.`}}
{{- /* It opens only for staleness that no driver reload explains, and closes after breaker.reset. An administrator should
look before that. */}}
- alert: GPUOperatorPostBreakerOpen
  expr: max by (namespace, driver) (gpu_operator_post_breaker_open{ {{- $ours -}} }) == 1
  severity: critical
  summary: The circuit breaker is open, nothing is restarted
  description: {{`>-
    Many plugins of driver {{ $labels.driver }} became stale within a minute, without a driver reload. The controller
    in {{ $labels.namespace }} assumes an error of clocks or of the API, and restarts nothing.`}}
{{- if ne .Values.strategy "rollout-restart" }}
{{- /* A plugin is restarted within seconds and verified 10 to 40 s later; with a quarter of the fleet down at once, the
last one waits for three others before it. The program itself gives a plugin 5 minutes: this is twice as long, and what
was stale before the controller started has another 5 minutes. With strategy rollout plugins wait for the last node, for
hours, as they should. */}}
- alert: GPUOperatorPostPluginStale
  expr: >-
    time() - min by (namespace, driver) (gpu_operator_post_oldest_stale_timestamp_seconds{ {{- $ours -}} }) > 600
    unless on (namespace, driver) gpu_operator_post_breaker_open{ {{- $ours -}} } == 1
  for: 5m
  severity: warning
  summary: A GPU plugin stays stale
  description: {{`>-
    A plugin of driver {{ $labels.driver }} has not been back on its node's driver for {{ $value | humanizeDuration }}.
    New GPU pods fail on that node.`}}
{{- end }}
{{- /* Failed is said after 5 minutes of patience; a failed upgrade was seen to clear by itself after 4. */}}
- alert: GPUOperatorPostNodeFailed
  expr: >-
    sum by (namespace, driver, reason) (
    gpu_operator_post_nodes{ {{- $ours }}, state="Failed", reason!="RestartBackedOff"}) > 0
  for: 1m
  severity: warning
  summary: A node requires manual action
  description: {{`>-
    {{ $value }} nodes of driver {{ $labels.driver }} require manual action: {{ $labels.reason }}. The controller
    continues with all others.`}}
{{- /* With the default back-off a fifth restart is due after the fourth did not help, a quarter of an hour after the
first. While a restart is tried the reason is gone for a minute or so: hence the look back. */}}
- alert: GPUOperatorPostRestartsDoNotHelp
  expr: >-
    sum by (namespace, driver) (
    max_over_time(gpu_operator_post_nodes{ {{- $ours }}, reason="RestartBackedOff"}[5m])) > 0
  for: 15m
  severity: warning
  summary: A plugin stays stale although it is restarted
  description: {{`>-
    On {{ $value }} nodes of driver {{ $labels.driver }} the plugin is as stale after each restart as before. It is
    tried ever more rarely.`}}
{{- /* A reload costs one restart, and the first node of an operator's upgrade, which is reloaded twice, two. Three for
every plugin within an hour serve nobody; a bit more is asked, because increase() extrapolates. Counted against the most
plugins that were known: those of a node that reloads are not. */}}
- alert: GPUOperatorPostManyRestarts
  expr: >-
    sum by (namespace, driver) (increase(gpu_operator_post_restarts_total{ {{- $ours }}, result="restarted"}[1h]))
    > 3.5 * max by (namespace, driver) (max_over_time(gpu_operator_post_plugins{ {{- $ours -}} }[1h]))
  severity: warning
  summary: Plugins are restarted over and over
  description: {{`>-
    {{ printf "%.0f" $value }} restarts within an hour for driver {{ $labels.driver }}: more than three for each
    plugin. Each takes a node's GPUs away from new pods for up to a minute.`}}
{{- /* Trouble that lasts makes one watch ask every 10 s or so, 0.1 a second. An outage of the API server, in which a dozen
of them ask, is over before half an hour is. What is not found, conflicts or has expired is no trouble. */}}
- alert: GPUOperatorPostApiErrors
  expr: >-
    sum by (namespace, kind) (
    rate(gpu_operator_post_api_errors_total{ {{- $ours }}, kind!~"NotFound|Conflict|Gone"}[10m])) > 0.05
  for: 30m
  severity: warning
  summary: Requests of the controller fail
  description: {{`>-
    Requests of the controller in {{ $labels.namespace }} have been failing for half an hour: {{ $labels.kind }},
    {{ printf "%.2f" $value }} a second.`}}
{{- end -}}
