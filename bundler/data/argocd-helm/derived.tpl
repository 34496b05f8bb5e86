{{- /* trigger: it changes with the chart and the values of the GPU operator. */ -}}
{{- $operator := include "gpu-stack.values" (dict "root" . "name" "gpu-operator") | fromJson -}}
{{- $fingerprint := printf "@@{fingerprint} %s" (toJson $operator) | sha256sum | trunc 12 -}}
{{- $_ := set $values "trigger" (list "@@{version}" $fingerprint (get $values "trigger") | compact | join "-") -}}
{{- /* expect.driverVersion: only if the policy will name this version. */ -}}
{{- $driver := get $operator "driver" | default dict -}}
{{- $version := get $driver "version" | default "" | toString -}}
{{- $crd := get (get $driver "nvidiaDriverCRD" | default dict) "enabled" -}}
{{- if not (or (empty $version) (hasPrefix "sha256:" $version) $crd (eq (get $driver "enabled" | toString) "false")) -}}
{{- include "gpu-stack.lay" (dict "below" $values "above" (dict "expect" (dict "driverVersion" $version))) -}}
{{- end -}}
{{- /* plugin.names: only if the DaemonSet of the DRA driver has an unusual name. */ -}}
{{- $dra := include "gpu-stack.values" (dict "root" . "name" "nvidia-dra-driver-gpu") | fromJson -}}
{{- $name := get $dra "nameOverride" | default "@@{chart}" -}}
{{- if not (or (has $name (list "nvidia-dra-driver-gpu" "dra-driver-nvidia-gpu")) (get (get $values "plugin" | default dict) "names")) -}}
{{- $names := list (printf "%s-kubelet-plugin" ($name | trunc 63 | trimSuffix "-")) -}}
{{- include "gpu-stack.lay" (dict "below" $values "above" (dict "plugin" (dict "names" $names))) -}}
{{- end -}}
