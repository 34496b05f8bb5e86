module github.com/yandex-cloud/go-sdk

go 1.26.0
