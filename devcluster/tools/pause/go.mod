module gpu-operator-post/tools/pause

go 1.26
