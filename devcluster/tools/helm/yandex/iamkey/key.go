// Package iamkey is a part of package ycsdk.
package iamkey

import "errors"

type Key struct{}

func ReadFromJSONBytes([]byte) (*Key, error) { return nil, errors.ErrUnsupported }
