// Command client asks a DRA kubelet plugin what a kubelet asks it: who it is, and to prepare or unprepare a claim.
//
//	client REGISTRATION-SOCKET info
//	client DRA-SOCKET prepare|unprepare NAMESPACE NAME UID
//
// It prints the plugin's answer as JSON. An error that the plugin reports for a claim is part of the answer.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const (
	patience    = 45 * time.Second // as a kubelet's
	usage       = "usage: client SOCKET info | client SOCKET prepare|unprepare NAMESPACE NAME UID"
	infoWords   = 2
	prepareWord = 5
)

func main() {
	answer, err := ask(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(protojson.Format(answer))
}

func ask(words []string) (proto.Message, error) {
	if len(words) != infoWords && len(words) != prepareWord {
		return nil, errors.New(usage)
	}
	connection, err := grpc.NewClient("unix://"+words[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if len(words) == infoWords && words[1] == "info" {
		return register(ctx, registration.NewRegistrationClient(connection))
	}
	if len(words) != prepareWord {
		return nil, errors.New(usage)
	}
	plugin := dra.NewDRAPluginClient(connection)
	claims := []*dra.Claim{{Namespace: words[2], Name: words[3], Uid: words[4]}}
	switch words[1] {
	case "prepare":
		return plugin.NodePrepareResources(ctx, &dra.NodePrepareResourcesRequest{Claims: claims})
	case "unprepare":
		return plugin.NodeUnprepareResources(ctx, &dra.NodeUnprepareResourcesRequest{Claims: claims})
	}
	return nil, errors.New(usage)
}

// register asks a plugin for its name and tells it that it was registered, as a kubelet does.
func register(ctx context.Context, client registration.RegistrationClient) (proto.Message, error) {
	info, err := client.GetInfo(ctx, &registration.InfoRequest{})
	if err != nil {
		return nil, err
	}
	_, err = client.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{PluginRegistered: true})
	return info, err
}
