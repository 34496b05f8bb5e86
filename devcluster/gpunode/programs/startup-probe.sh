test -e /run/nvidia/validations/.driver-ctr-ready
