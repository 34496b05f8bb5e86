#!/bin/sh
# Stand in for the GPU operator: a ClusterPolicy that asks for driver VERSION, and the DaemonSet that the operator would
# render for it. Its pods do nothing; the driver's files come from NVIDIA's nvml-mock chart.
#
# usage: driver.sh VERSION
set -eu
version=$1
namespace=gpu-operator

kubectl apply --filename=- <<EOF
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata:
  name: cluster-policy
spec:
  driver:
    enabled: true
    repository: localhost
    image: mock-driver
    version: "$version"
    usePrecompiled: false
    upgradePolicy:
      autoUpgrade: true
EOF
uid=$(kubectl get clusterpolicies.nvidia.com cluster-policy --output=jsonpath='{.metadata.uid}')

kubectl apply --filename=- <<EOF
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: nvidia-driver-daemonset
  namespace: $namespace
  labels: &labels
    app: nvidia-driver-daemonset
    app.kubernetes.io/component: nvidia-driver
  ownerReferences:
    - {apiVersion: nvidia.com/v1, kind: ClusterPolicy, name: cluster-policy, uid: $uid, controller: true}
spec:
  selector:
    matchLabels: {app: nvidia-driver-daemonset}
  template:
    metadata:
      labels: *labels
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {nvidia.com/gpu.deploy.driver: "true"}
      tolerations: [{operator: Exists}]
      containers:
        - name: nvidia-driver-ctr
          image: localhost/mock-driver:$version-ubuntu22.04
          imagePullPolicy: Never
          command: [python3, -c, "import signal; signal.pause()"]
EOF
kubectl rollout status daemonset/nvidia-driver-daemonset --namespace=$namespace --timeout=120s
kubectl patch clusterpolicies.nvidia.com cluster-policy --subresource=status --type=merge \
  --patch="{\"status\": {\"namespace\": \"$namespace\", \"state\": \"ready\"}}"
