"""A GPU node without GPUs: NVIDIA's DRA driver on a real kubelet, and what stands in for driver and devices.

Driver pods carry a mock of NVIDIA's Management Library (`devcluster.nvml`) and a file in the place of the kernel
module. All that reads those two is NVIDIA's own code: what becomes stale, and what is said about it, is not simulated.

    images.py   the images of the pods, from programs of this machine and of the cache
    programs/   shell scripts for the driver's pod
"""
