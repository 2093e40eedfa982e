// SPDX-License-Identifier: MIT OR Apache-2.0
// A session of kiln.v1 in Go: one stream, on which only reads are answered. docs/wire.md has the rules. The methods are
// called by their names, so that no plugin of protoc for services is needed.

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"google.golang.org/grpc"

	"remote_go/kilnv1"
)

// Numbers of docs/wire.md: a dtype, and a type of attributes.
const (
	f32          = 12
	attributeF64 = 2
)

type session struct {
	stream  grpc.ClientStream
	request uint64
	buffers uint64
}

// openSession greets the server. The session lives as long as ctx.
func openSession(ctx context.Context, conn *grpc.ClientConn, device uint32) (*session, *kilnv1.Welcome, error) {
	desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	stream, err := conn.NewStream(ctx, desc, "/kiln.v1.Compute/Session")
	if err != nil {
		return nil, nil, err
	}
	s := &session{stream: stream}
	hello := &kilnv1.Hello{Version: 1, Client: "remote_go", Device: device}
	answer, _, err := s.ask(&kilnv1.Frame{Body: &kilnv1.Frame_Hello{Hello: hello}})
	if err != nil {
		return nil, nil, err
	}
	return s, answer.GetWelcome(), nil
}

// ask sends a frame that is answered, and gives the last frame of the answer with all its data.
func (s *session) ask(frame *kilnv1.Frame) (*kilnv1.Frame, []byte, error) {
	s.request++
	frame.Request = s.request
	if err := s.stream.SendMsg(frame); err != nil {
		return nil, nil, err
	}
	var data []byte
	for {
		answer := new(kilnv1.Frame)
		if err := s.stream.RecvMsg(answer); err != nil {
			return nil, nil, err
		}
		data = append(data, answer.Data...)
		if told := answer.GetAnswer(); told != nil && told.Code != 0 {
			return nil, nil, fmt.Errorf("frame %d: %s", told.Frame, told.Message)
		}
		if answer.Body != nil {
			return answer, data, nil
		}
	}
}

// write makes a buffer of floats, which have to fit in one frame here.
func (s *session) write(values []float32) (uint64, error) {
	var data bytes.Buffer
	if err := binary.Write(&data, binary.LittleEndian, values); err != nil {
		return 0, err
	}
	s.buffers++
	write := &kilnv1.Write{Buffer: s.buffers, Total: uint64(data.Len())}
	frame := &kilnv1.Frame{Body: &kilnv1.Frame_Write{Write: write}, Data: data.Bytes()}
	return s.buffers, s.stream.SendMsg(frame)
}

// run binds value 1 of the graph to a buffer and its value `last` to a new one. It does not wait.
func (s *session) run(graph *kilnv1.Graph, from, last uint64) (uint64, error) {
	s.buffers++
	run := &kilnv1.Run{
		Inputs:  []*kilnv1.Binding{{Value: 1, Buffer: from}},
		Outputs: []*kilnv1.Binding{{Value: last, Buffer: s.buffers}},
	}
	return s.buffers, s.stream.SendMsg(&kilnv1.Frame{Body: &kilnv1.Frame_Run{Run: run}, Graph: graph})
}

func (s *session) read(buffer uint64, count int) ([]float32, error) {
	read := &kilnv1.Read{Buffer: buffer, Length: uint64(4 * count)}
	_, data, err := s.ask(&kilnv1.Frame{Body: &kilnv1.Frame_Read{Read: read}})
	if err != nil {
		return nil, err
	}
	values := make([]float32, count)
	return values, binary.Read(bytes.NewReader(data), binary.LittleEndian, values)
}

func (s *session) close() error {
	if err := s.stream.SendMsg(&kilnv1.Frame{Body: &kilnv1.Frame_Close{Close: &kilnv1.Close{}}}); err != nil {
		return err
	}
	return s.stream.CloseSend()
}

// chain is a graph of operations, each on the result of the one before: value 1 is its input.
type chain struct {
	graph *kilnv1.Graph
	since map[string]uint32
	dims  []int64
}

func newChain(info *kilnv1.InfoResponse, dims ...int64) *chain {
	c := &chain{graph: &kilnv1.Graph{Version: 1}, since: map[string]uint32{}, dims: dims}
	for _, row := range info.Operators {
		c.since[row.Name] = row.Since
	}
	c.graph.Inputs = []*kilnv1.Tensor{c.value(1)}
	return c
}

func (c *chain) value(id uint64) *kilnv1.Tensor {
	return &kilnv1.Tensor{Id: id, Dtype: f32, Dims: c.dims}
}

func (c *chain) then(name string, attributes ...*kilnv1.Attribute) *chain {
	last := uint64(len(c.graph.Operations) + 1)
	count := uint32(len(attributes))
	c.graph.Operations = append(c.graph.Operations, &kilnv1.Operation{
		Name: name, Since: c.since[name], Inputs: []*kilnv1.Tensor{c.value(last)},
		Outputs: []*kilnv1.Tensor{c.value(last + 1)}, Attributes: attributes, NAttributes: &count,
	})
	return c
}

// end gives the graph and the number of its result.
func (c *chain) end() (*kilnv1.Graph, uint64) {
	one, count := uint32(1), uint32(len(c.graph.Operations))
	last := uint64(count) + 1
	c.graph.NInputs, c.graph.NOutputs, c.graph.NOperations = &one, &one, &count
	c.graph.Outputs = []uint64{last}
	return c.graph, last
}

func number(name string, value float64) *kilnv1.Attribute {
	return &kilnv1.Attribute{Name: name, Type: attributeF64, Real: value}
}
