// Package ycsdk gives the names that vals, a library of helmfile, knows of Yandex Cloud's library.
//
// That one is generated for all of the cloud's services: a fifth of what helmfile is compiled from. Nobody here keeps
// a secret in Yandex Lockbox, which is all that vals asks it for; where somebody did, vals would say what Build says.
package ycsdk

import (
	"context"
	"errors"

	"github.com/yandex-cloud/go-genproto/yandex/cloud/lockbox/v1"
	"github.com/yandex-cloud/go-sdk/iamkey"
)

var errLeftOut = errors.New("this helmfile is built without Yandex Lockbox")

type (
	Credentials any
	Config      struct {
		Credentials Credentials
		Endpoint    string
	}
	SDK     struct{}
	Lockbox struct{}
)

func Build(context.Context, Config) (*SDK, error)        { return nil, errLeftOut }
func ServiceAccountKey(*iamkey.Key) (Credentials, error) { return nil, errLeftOut }
func NewIAMTokenCredentials(string) Credentials          { return nil }
func (*SDK) LockboxPayload() *Lockbox                    { return nil }
func (*Lockbox) Payload() lockbox.PayloadServiceClient   { return nil }
