{{/*
The alerts of a follower, as a YAML list. The reason of each number stands with it; each alert has its runbook in
docs/operations.md, under its own name.

`namespace` and `pod` are what a PodMonitor adds; whoever scrapes otherwise must add them, too.
*/}}
{{- define "gpu-operator-post.alerts" -}}
{{- $ours := printf "namespace=%q" .Release.Namespace }}
{{- /* A node that is lost is noticed after 40 s, and its pod replaced after another 300 s; a new pod leads within a
minute, pulled image included. A restart in place, or a change of leaders, takes seconds. */}}
- alert: GPUOperatorPostFollowerMissing
  expr: absent(gpu_operator_post_leader{ {{- $ours -}} } == 1)
  for: 10m
  severity: critical
  summary: No follower looks after the GPU plugins
  description: >-
    No pod of {{ include "gpu-operator-post.followName" . }} in {{ .Release.Namespace }} has held its Lease for 10
    minutes. Plugins that go stale when a driver reloads stay stale: new GPU pods fail on their nodes.
{{- /* Whoever cannot renew the Lease for 10 s ends and starts again: so does every loss of the API server. Control
planes of three that are upgraded one by one make three of them. Any process shows when it started: ours are those
that also show what no other does. Not those of a name, of which a pod's holds only the beginning where it is long. */}}
- alert: GPUOperatorPostFollowerRestarting
  expr: >-
    changes(process_start_time_seconds{ {{- $ours -}} }[1h]) > 5
    and on (namespace, pod) max_over_time(gpu_operator_post_build_info{ {{- $ours -}} }[1h])
  severity: warning
  summary: The follower keeps restarting
  description: {{`>-
    Pod {{ $labels.pod }} in {{ $labels.namespace }} has started {{ $value }} times more within an hour. In between,
    stale plugins are served late or not at all.`}}
{{- /* A round takes a second or two; 5,000 nodes are read within 20 s. The liveness probe ends a loop that hangs after
three minutes: what lasts longer is a start that never comes to an end. */}}
- alert: GPUOperatorPostNoProgress
  expr: >-
    gpu_operator_post_leader{ {{- $ours -}} } == 1
    and on (namespace, pod) time() - gpu_operator_post_last_round_timestamp_seconds{ {{- $ours -}} } > 180
  for: 5m
  severity: warning
  summary: The follower leads, but finishes no round
  description: {{`>-
    Pod {{ $labels.pod }} in {{ $labels.namespace }} holds the Lease, and has not judged the fleet for more than three
    minutes. Nothing is restarted meanwhile.`}}
{{- /* A control plane that restarts is back within a minute, and a rotated token is read within another. */}}
- alert: GPUOperatorPostBlind
  expr: max by (namespace, pod) (gpu_operator_post_contact_lost_seconds{ {{- $ours -}} }) > 300
  severity: warning
  summary: The follower cannot read the cluster
  description: {{`>-
    Pod {{ $labels.pod }} in {{ $labels.namespace }} has been unable to read some kind of object for
    {{ $value | humanizeDuration }}. Nothing is restarted meanwhile.`}}
{{- /* It opens only for what no driver does, and stays open for breaker.reset: somebody should look before it closes. */}}
- alert: GPUOperatorPostBreakerOpen
  expr: max by (namespace, stack) (gpu_operator_post_breaker_open{ {{- $ours -}} }) == 1
  severity: critical
  summary: The circuit breaker is open, nothing is restarted
  description: {{`>-
    Many plugins of the stack {{ $labels.stack }} turned stale within a minute, and no reload of a driver was seen. The
    follower in {{ $labels.namespace }} takes it for an error of clocks or of the API and restarts nothing.`}}
{{- if ne .Values.strategy "rollout" }}
{{- /* A plugin is restarted within seconds and verified 10 to 40 s later; with a quarter of the fleet down at once, the
last one waits for three others before it. The program itself gives a plugin 5 minutes: this is twice as long, and what
was stale before the follower started has another 5 minutes. With strategy rollout plugins wait for the last node, for
hours, as they should. */}}
- alert: GPUOperatorPostPluginStale
  expr: >-
    time() - min by (namespace, stack) (gpu_operator_post_oldest_stale_timestamp_seconds{ {{- $ours -}} }) > 600
    unless on (namespace, stack) gpu_operator_post_breaker_open{ {{- $ours -}} } == 1
  for: 5m
  severity: warning
  summary: A GPU plugin stays stale
  description: {{`>-
    A plugin of the stack {{ $labels.stack }} has not been back on its node's driver for {{ $value | humanizeDuration }}.
    New GPU pods fail on that node.`}}
{{- end }}
{{- /* Failed is said after 5 minutes of patience; a failed upgrade was seen to clear by itself after 4. */}}
- alert: GPUOperatorPostNodeFailed
  expr: >-
    sum by (namespace, stack, reason) (
    gpu_operator_post_nodes{ {{- $ours }}, state="Failed", reason!="RestartBackedOff"}) > 0
  for: 1m
  severity: warning
  summary: A node needs a person
  description: {{`>-
    {{ $value }} nodes of the stack {{ $labels.stack }} are not served by themselves: {{ $labels.reason }}. All others
    go on being served.`}}
{{- /* With the default back-off a fifth restart is due after the fourth did not help, a quarter of an hour after the
first. While a restart is tried the reason is gone for a minute or so: hence the look back. */}}
- alert: GPUOperatorPostRestartsDoNotHelp
  expr: >-
    sum by (namespace, stack) (
    max_over_time(gpu_operator_post_nodes{ {{- $ours }}, reason="RestartBackedOff"}[5m])) > 0
  for: 15m
  severity: warning
  summary: A plugin stays stale although it is restarted
  description: {{`>-
    On {{ $value }} nodes of the stack {{ $labels.stack }} the plugin is as stale after each restart as before. It is
    tried ever more rarely.`}}
{{- /* A reload costs one restart, and the first node of an operator's upgrade, which is reloaded twice, two. Three for
every plugin within an hour serve nobody; a bit more is asked, because increase() extrapolates. Counted against the most
plugins that were known: those of a node that reloads are not. */}}
- alert: GPUOperatorPostManyRestarts
  expr: >-
    sum by (namespace, stack) (increase(gpu_operator_post_restarts_total{ {{- $ours }}, result="restarted"}[1h]))
    > 3.5 * max by (namespace, stack) (max_over_time(gpu_operator_post_plugins{ {{- $ours -}} }[1h]))
  severity: warning
  summary: Plugins are restarted over and over
  description: {{`>-
    {{ printf "%.0f" $value }} restarts within an hour for the stack {{ $labels.stack }}: more than three for each
    plugin. Each takes a node's GPUs away from new pods for up to a minute.`}}
{{- /* Trouble that lasts makes one watch ask every 10 s or so, 0.1 a second. An outage of the API server, in which a dozen
of them ask, is over before half an hour is. What is not found, conflicts or has expired is no trouble. */}}
- alert: GPUOperatorPostApiErrors
  expr: >-
    sum by (namespace, kind) (
    rate(gpu_operator_post_api_errors_total{ {{- $ours }}, kind!~"NotFound|Conflict|Gone"}[10m])) > 0.05
  for: 30m
  severity: warning
  summary: The API server refuses the follower, or breaks off
  description: {{`>-
    Requests of the follower in {{ $labels.namespace }} have been failing for half an hour: {{ $labels.kind }},
    {{ printf "%.2f" $value }} a second.`}}
{{- end -}}
