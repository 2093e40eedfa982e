// SPDX-License-Identifier: MIT OR Apache-2.0

// A client of `kiln serve` in Go, from the .proto files alone: a fused chain of operations on the server's device, and
// the first input of a model, when the server has some, answered over KServe's protocol.
//
//	kiln serve --listen 127.0.0.1:3000 &
//	./generate.sh && go run . 127.0.0.1:3000
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"remote_go/inference"
	"remote_go/kilnv1"
)

const models = "/inference.GRPCInferenceService/"

// compute runs relu(3 x + 1) as one kernel: only its result is ever in memory.
func compute(ctx context.Context, conn *grpc.ClientConn) error {
	info := new(kilnv1.InfoResponse)
	if err := conn.Invoke(ctx, "/kiln.v1.Compute/Info", &kilnv1.InfoRequest{}, info); err != nil {
		return err
	}
	for i, device := range info.Devices {
		fmt.Printf("device %d: %s\n", i, device.Name)
	}
	s, _, err := openSession(ctx, conn, 0)
	if err != nil {
		return err
	}
	x, err := s.write([]float32{-2, -1, 1, 2})
	if err != nil {
		return err
	}
	graph, last := newChain(info, 4).then("mul_scalar", number("value", 3)).
		then("add_scalar", number("value", 1)).then("relu").end()
	y, err := s.run(graph, x, last)
	if err != nil {
		return err
	}
	values, err := s.read(y, 4)
	if err != nil {
		return err
	}
	fmt.Println("chain:", values)
	return s.close()
}

// zeros is an input as a model describes it, with 1 for what may vary.
func zeros(about *inference.ModelMetadataResponse_TensorMetadata) (*inference.ModelInferRequest_InferInputTensor, []byte) {
	count := int64(1)
	shape := append([]int64(nil), about.Shape...)
	for i, length := range shape {
		if length < 0 {
			shape[i] = 1
		}
		count *= shape[i]
	}
	tensor := &inference.ModelInferRequest_InferInputTensor{Name: about.Name, Datatype: about.Datatype, Shape: shape}
	return tensor, make([]byte, 4*count)
}

// infer asks the model of this name for what it makes of zeros; all its inputs are FP32.
func infer(ctx context.Context, conn *grpc.ClientConn, name string) error {
	about := new(inference.ModelMetadataResponse)
	if err := conn.Invoke(ctx, models+"ModelMetadata", &inference.ModelMetadataRequest{Name: name}, about); err != nil {
		return err
	}
	request := &inference.ModelInferRequest{ModelName: name}
	for _, each := range about.Inputs {
		if each.Datatype != "FP32" {
			return fmt.Errorf("%s takes %s", name, each.Datatype)
		}
		tensor, data := zeros(each)
		request.Inputs = append(request.Inputs, tensor)
		request.RawInputContents = append(request.RawInputContents, data)
	}
	reply := new(inference.ModelInferResponse)
	if err := conn.Invoke(ctx, models+"ModelInfer", request, reply); err != nil {
		return err
	}
	for i, output := range reply.Outputs {
		first := math.Float32frombits(binary.LittleEndian.Uint32(reply.RawOutputContents[i]))
		fmt.Printf("model %s: %s %s%v begins with %.4f\n", name, output.Name, output.Datatype, output.Shape, first)
	}
	return nil
}

func inferAll(ctx context.Context, conn *grpc.ClientConn) error {
	index := new(inference.RepositoryIndexResponse)
	err := conn.Invoke(ctx, models+"RepositoryIndex", &inference.RepositoryIndexRequest{Ready: true}, index)
	if status.Code(err) == codes.Unimplemented {
		return nil // a server without models
	}
	for i := 0; err == nil && i < len(index.Models); i++ {
		err = infer(ctx, conn, index.Models[i].Name)
	}
	return err
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: remote_go HOST:PORT")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		err = compute(ctx, conn)
	}
	if err == nil {
		err = inferAll(ctx, conn)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "remote_go:", err)
		os.Exit(1)
	}
}
