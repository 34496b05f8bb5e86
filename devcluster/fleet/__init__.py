"""The kubelets of the GPU nodes, simulated, and the ground truth of what each node has loaded.

The pods, DaemonSets and revisions are real objects under the real controllers. What is simulated
is what a node would do: k8s-driver-manager unloading a driver, the driver container loading
another one, the DRA plugin waiting for a driver, holding on to it and publishing its devices; and
the same for the network card's driver and its device plugins. KWOK plays all other pods.

    settings.py      how long things take
    faults.py        the annotations and the label that cause a fault on a node
    status.py        a pod's status as a kubelet writes it
    stack.py         one kind of driver on a node: what is loaded, and the truth about it
    node.py          one node: its drivers, and what the API says of it
    life.py          what all pods' lives have in common: deletion, reboot, outage
    loader.py        what the lives of both drivers' pods have in common
    driver.py        the life of a GPU driver pod
    networkdriver.py the life of a network driver pod
    clients.py       the lives of pods that hold a driver: DRA plugins, network device plugins, others
    operands.py      the lives of container toolkit and MIG manager
    claims.py        the life of a pod with claims
    slices.py        the ResourceSlice of one node's GPUs
    kubelet.py       watches the API server and starts lives
"""
