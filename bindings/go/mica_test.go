package mica_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"mica"
	"mica/inference"
)

// The root of mica's sources, whose models and goldens tests read, and the command, their witness.
var (
	root    = or(os.Getenv("MICA_TEST_ROOT"), "../..")
	command = os.Getenv("MICA_TEST_COMMAND")
	folder  = filepath.Join(root, "models/default")
)

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func fixture(parts ...string) string {
	return filepath.Join(append([]string{root, "tests/fixtures"}, parts...)...)
}

func load(t testing.TB, options ...mica.LoadOption) *mica.Model {
	return loadFrom(t, folder, options...)
}

func loadFrom(t testing.TB, folder string, options ...mica.LoadOption) *mica.Model {
	t.Helper()
	m, err := mica.LoadModel(folder, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// asked is what the command says.
func asked(t *testing.T, told string, arguments ...string) string {
	t.Helper()
	if command == "" {
		t.Skip("there is no command in MICA_TEST_COMMAND")
	}
	run := exec.Command(command, arguments...)
	run.Stdin = strings.NewReader(told)
	out, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func text(m *mica.Model, ctx context.Context, prompt string, options ...mica.GenerateOption) string {
	var b strings.Builder
	for tok := range m.Generate(ctx, prompt, options...) {
		b.WriteString(tok.Text)
	}
	return b.String()
}

func user(content string) []mica.Message {
	return []mica.Message{{Role: "user", Content: content}}
}

func TestAnswers(t *testing.T) {
	m, ctx := load(t), context.Background()
	want := text(m, ctx, "The sea is", mica.WithMaxTokens(8))
	if m.Err() != nil || want == "" || m.Metrics().GeneratedTokens != 8 {
		t.Fatal(m.Err(), want, m.Metrics())
	}
	var told []string
	rows, err := m.BatchGenerate(ctx, []string{"The sea is", ""}, mica.WithMaxTokens(8),
		mica.WithLogprobs(), mica.WithOnToken(func(row int, token mica.Token) {
			if row == 0 {
				told = append(told, token.Text)
			}
		}))
	if err != nil || rows[0].Text != want || rows[0].Err != nil || rows[1].Err == nil {
		t.Fatal(err, rows)
	}
	if strings.Join(told, "") != want || rows[0].Finish != mica.FinishLength ||
		len(rows[0].Tokens) != 8 || rows[0].Tokens[7].Logprob >= 0 {
		t.Fatal(told, rows[0])
	}
	ids, err := m.Encode("The sea is")
	if err != nil || len(ids) < 3 {
		t.Fatal(err, ids)
	}
	if back, err := m.Decode(ids); err != nil || back != "The sea is" {
		t.Fatal(err, back)
	}
	var finish mica.Finish
	var metrics mica.Metrics
	stopped := text(m, ctx, "The sea is", mica.WithStopTokens(rows[0].Tokens[2].ID),
		mica.WithFinish(&finish), mica.WithMetrics(&metrics), mica.WithMaxTokens(8))
	if !strings.HasPrefix(want, stopped) || finish != mica.FinishStop || metrics.GeneratedTokens != 2 {
		t.Fatal(stopped, finish, metrics)
	}
	if info := m.Info(); info.NumLayers != m.NumLayers() || info.Engine != "native" ||
		m.ModelType() != info.Family || info.VocabSize == 0 || mica.Version() == "" {
		t.Fatal(info)
	}
}

func TestAnswerIsTheCommands(t *testing.T) {
	want := asked(t, "", "run", folder, "What is curl?")
	m := load(t)
	var said strings.Builder
	for tok := range m.Chat(context.Background(), user("What is curl?")) {
		said.WriteString(tok.Text)
	}
	if strings.TrimSpace(said.String()) != want || want == "" {
		t.Fatal(said.String(), want, m.Err())
	}
	rows, err := m.BatchChat(context.Background(), [][]mica.Message{user("What is curl?")})
	if err != nil || strings.TrimSpace(rows[0].Text) != want {
		t.Fatal(err, rows)
	}
}

func TestConstraints(t *testing.T) {
	m, ctx := load(t), context.Background()
	for _, row := range []struct {
		option mica.GenerateOption
		right  func(string) bool
	}{
		{mica.WithSchema(`{"type": "integer", "maximum": 9999}`), isJSON},
		{mica.WithSchema(map[string]any{"enum": []int{3, 4}}), isOne("3", "4")},
		{mica.WithRegex("[ab]{3}"), func(s string) bool { return len(s) == 3 && strings.Trim(s, "ab") == "" }},
		{mica.WithChoice("yes", "no"), isOne("yes", "no")},
		{mica.WithGrammar(`root ::= "x" | "yy"`), isOne("x", "yy")},
	} {
		if said := text(m, ctx, "A number:", row.option); m.Err() != nil || !row.right(said) {
			t.Fatal(said, m.Err())
		}
	}
	if text(m, ctx, "a", mica.WithSchema(func() {})); m.Err() == nil {
		t.Fatal("no JSON of a function")
	}
}

func isJSON(s string) bool { return json.Valid([]byte(s)) }

func isOne(of ...string) func(string) bool {
	return func(s string) bool {
		for _, o := range of {
			if s == o {
				return true
			}
		}
		return false
	}
}

// A template as of models that call tools; the answer is forced.
const calling = `{% if tools %}{{ tools | tojson }}{% endif %}` +
	`{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}` +
	`{% if m.tool_calls %}{% for c in m.tool_calls %}<tool_call>{"name": "{{ c.function.name }}", ` +
	`"arguments": {{ c.function.arguments | tojson }}}</tool_call>{% endfor %}{% endif %}` +
	`<|im_end|>{% endfor %}`

func TestTools(t *testing.T) {
	m, ctx := load(t, mica.WithChatTemplate(calling)), context.Background()
	tool := mica.Tool{Name: "add", Description: "Adds.", Parameters: json.RawMessage(
		`{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}`)}
	talk := user("Add")
	if prompt, ids, err := m.Render(talk, mica.WithTools(tool)); err != nil ||
		!strings.Contains(prompt, "Adds.") || len(ids) == 0 {
		t.Fatal(prompt, err)
	}
	answer, err := m.Respond(ctx, talk, mica.WithTools(tool),
		mica.WithRegex(`<tool_call>\{"name": "add", "arguments": \{"a": 12\}\}</tool_call>`))
	if err != nil || len(answer.ToolCalls) != 1 || answer.ToolCalls[0].Name != "add" ||
		answer.Finish != mica.FinishStop {
		t.Fatalf("%+v %v", answer, err)
	}
	var given struct{ A int }
	if err := json.Unmarshal([]byte(answer.ToolCalls[0].Arguments), &given); err != nil || given.A != 12 {
		t.Fatal(answer.ToolCalls, err)
	}
	talk = append(talk, answer.Message,
		mica.Message{Role: "tool", Content: "13", ToolCallID: answer.ToolCalls[0].ID})
	prompt, _, err := m.Render(talk, mica.WithTools(tool))
	if err != nil || !strings.Contains(prompt, "12") || !strings.Contains(prompt, "13") {
		t.Fatal(prompt, err)
	}
}

func TestSessions(t *testing.T) {
	m, ctx := load(t), context.Background()
	s, err := m.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first, err := s.Respond(ctx, user("What is curl?"), mica.WithMaxTokens(6))
	if err != nil {
		t.Fatal(err)
	}
	talk := append(user("What is curl?"), first.Message, mica.Message{Role: "user", Content: "Why?"})
	file := filepath.Join(t.TempDir(), "session")
	fork, err := s.Fork()
	if err != nil {
		t.Fatal(err)
	}
	defer fork.Close()
	if err := s.Save(file); err != nil {
		t.Fatal(err)
	}
	saved, err := m.LoadSession(file)
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	var said [3]string
	for i, session := range []*mica.Session{s, fork, saved} {
		answer, err := session.Respond(ctx, talk, mica.WithMaxTokens(6))
		if err != nil || answer.Metrics.ReusedTokens == 0 {
			t.Fatal(i, answer, err)
		}
		said[i] = answer.Content
	}
	if said[0] == "" || said[0] != said[1] || said[0] != said[2] {
		t.Fatal(said)
	}
	for range s.Generate(ctx, "a") {
		var busy error
		for range s.Generate(ctx, "b", mica.WithError(&busy)) {
			t.Fatal("two answers at once")
		}
		if !errors.Is(busy, mica.ErrBusy) || !errors.Is(s.Reset(), mica.ErrBusy) {
			t.Fatal(busy)
		}
		s.Close() // ends with the loop
		break
	}
	if !errors.Is(s.Reset(), mica.ErrClosed) {
		t.Fatal("it is open")
	}
}

func TestTasks(t *testing.T) {
	m, ctx := load(t), context.Background()
	classes, err := m.Classify(ctx, []string{"I like it. It is", ""}, mica.WithLabels(" good", " bad"),
		mica.WithLogits())
	if err != nil || classes[0].Label == "" || len(classes[0].Labels) != 2 || classes[1].Err == nil ||
		len(classes[0].Logits) != m.Info().VocabSize {
		t.Fatal(err, classes)
	}
	score, err := m.Score(ctx, "The sea is blue.")
	if err != nil || len(score.IDs) != len(score.Logprobs) || math.Abs(score.Perplexity-
		math.Exp(-score.Total/float64(len(score.IDs)-1))) > 1e-6*score.Perplexity {
		t.Fatal(score, err)
	}
	attention, err := m.InspectAttention(ctx, "The sea is", 1, 0)
	if err != nil || len(attention.Layers) != 2 || attention.Layers[0].Layer != 1 ||
		len(attention.Layers[1].Keys) != attention.KVHeads*len(attention.IDs)*attention.HeadDim {
		t.Fatal(attention, err)
	}
	if all, err := m.InspectAttention(ctx, "The sea is"); err != nil || len(all.Layers) != m.NumLayers() {
		t.Fatal(err)
	}
	if _, err := m.Rerank(ctx, "a", []string{"b"}); err == nil {
		t.Fatal("it is no reranker")
	}
	if vectors, err := m.Embed(ctx, []string{"a", ""}); err == nil || vectors[0] == nil ||
		vectors[1] != nil || !strings.Contains(err.Error(), "text 1: MICA_EINVAL") {
		t.Fatal(err)
	}
}

func golden(t *testing.T, name string, into any) map[string]*mica.Array {
	t.Helper()
	data, err := os.ReadFile(fixture("embedders", name, "golden.json"))
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
	return arrays(t, fixture("embedders", name, "golden.safetensors"))
}

func arrays(t *testing.T, path string) map[string]*mica.Array {
	t.Helper()
	read := mica.LoadSafetensors
	if filepath.Ext(path) == ".npz" {
		read = mica.LoadNPZ
	}
	found, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, a := range found {
			a.Free()
		}
	})
	return found
}

// What sentence-transformers gave.
func TestEmbeddingsAndRanks(t *testing.T) {
	ctx := context.Background()
	var of struct {
		Texts []string
		Pairs [][2]string
	}
	want := golden(t, "bert_minilm", &of)["embeddings"].Floats()
	m := loadFrom(t, fixture("embedders/bert_minilm"), mica.WithExact())
	vectors, err := m.Embed(ctx, of.Texts)
	if err != nil {
		t.Fatal(err)
	}
	for i, vector := range vectors {
		near(t, vector, want[i*len(vector):(i+1)*len(vector)], 2e-5)
	}
	scores := golden(t, "xlmr_reranker", &of)["scores"].Floats()
	m = loadFrom(t, fixture("embedders/xlmr_reranker"), mica.WithExact())
	for i, pair := range of.Pairs {
		if i == 6 { // which the reference has cut
			continue
		}
		got, err := m.Rerank(ctx, pair[0], []string{pair[1]})
		if err != nil {
			t.Fatal(err)
		}
		near(t, got, scores[i:i+1], 1e-4)
	}
}

func near(t *testing.T, got, want []float32, apart float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatal(len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(float64(got[i])-float64(want[i])) <= apart) {
			t.Fatal(i, got[i], want[i])
		}
	}
}

func TestEmbeddingIsTheCommands(t *testing.T) {
	out := asked(t, "The sea is blue.\n", "embed", folder, "--quiet")
	var want struct{ Embedding []float32 }
	if err := json.Unmarshal([]byte(out), &want); err != nil {
		t.Fatal(err, out)
	}
	vectors, err := load(t).Embed(context.Background(), []string{"The sea is blue."})
	if err != nil {
		t.Fatal(err)
	}
	near(t, vectors[0], want.Embedding, 1e-5)
}

func TestErrors(t *testing.T) {
	var failed *mica.Error
	_, err := mica.LoadModel("/nowhere")
	if !errors.As(err, &failed) || failed.Status != "MICA_ENOENT" || failed.Text == "" ||
		!errors.Is(err, &mica.Error{Status: "MICA_ENOENT"}) || errors.Is(err, mica.ErrClosed) {
		t.Fatal(err)
	}
	if _, err := mica.LoadModel(folder, mica.WithBackend("none")); err == nil {
		t.Fatal("an engine that is none")
	}
	m := load(t)
	text(m, context.Background(), "")
	if !errors.As(m.Err(), &failed) || failed.Status != "MICA_EINVAL" {
		t.Fatal(m.Err())
	}
	if text(m, context.Background(), "a", mica.WithMaxTokens(1)); m.Err() != nil {
		t.Fatal(m.Err())
	}
	m.Close()
	m.Close()
	text(m, context.Background(), "a")
	_, encoded := m.Encode("a")
	_, batch := m.BatchGenerate(context.Background(), []string{"a"})
	for _, err := range []error{m.Err(), encoded, batch} {
		if !errors.Is(err, mica.ErrClosed) {
			t.Fatal(err)
		}
	}
	if m.Info().Family == "" {
		t.Fatal("Info has gone")
	}
}

func TestCancelled(t *testing.T) {
	m := load(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	for range m.Generate(ctx, "The sea is") {
		if n++; n == 3 {
			cancel()
		}
	}
	if !errors.Is(m.Err(), context.Canceled) || n != 3 {
		t.Fatal(n, m.Err())
	}
	_, batch := m.BatchGenerate(ctx, []string{"a"})
	_, embedded := m.Embed(ctx, []string{"a"})
	_, loaded := mica.LoadModel(folder, mica.WithNoMmap(), mica.WithLoadContext(ctx))
	for _, err := range []error{batch, embedded, loaded} {
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	ctx, cancel = context.WithCancel(context.Background())
	rows, err := m.BatchGenerate(ctx, []string{"The sea is", "The sun is"},
		mica.WithOnToken(func(int, mica.Token) { cancel() }))
	for _, row := range rows {
		if !errors.Is(row.Err, context.Canceled) {
			t.Fatal(row.Err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for range m.Generate(context.Background(), "The sea is") {
		break // leaves nothing open
	}
	if m.Err() != nil {
		t.Fatal(m.Err())
	}
}

// Many goroutines open, stream and close; one model is closed while it is asked.
func TestManyAtOnce(t *testing.T) {
	m := load(t)
	var wait sync.WaitGroup
	for range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for range 10 {
				text(m, context.Background(), "The", mica.WithMaxTokens(2))
			}
		}()
	}
	wait.Add(1)
	go func() {
		defer wait.Done()
		m.Info()
		m.Close()
	}()
	wait.Wait()
}

// A model may be closed in the loop of its answer, which goes on; others are refused.
func TestClosedInLoop(t *testing.T) {
	m := load(t)
	n := 0
	for range m.Generate(context.Background(), "The sea is", mica.WithMaxTokens(3)) {
		n++
		m.Close()
		m.Close()
		if _, err := m.Encode("a"); !errors.Is(err, mica.ErrClosed) {
			t.Fatal(err)
		}
	}
	if n != 3 || m.Err() != nil {
		t.Fatal(n, m.Err())
	}
}

// Finalisers are not needed, and do no harm: they close in a thread of their own.
func TestFinaliser(t *testing.T) {
	done := make(chan struct{})
	func() {
		m, err := mica.LoadModel(folder)
		if err != nil {
			t.Fatal(err)
		}
		text(m, context.Background(), "The", mica.WithMaxTokens(1))
		runtime.SetFinalizer(m, func(m *mica.Model) {
			m.Close()
			close(done)
		})
	}()
	for {
		runtime.GC()
		select {
		case <-done:
			return
		default:
			runtime.Gosched()
		}
	}
}

// A panic of a function that C calls goes on in Go, and leaves all well.
func TestPanics(t *testing.T) {
	m := load(t)
	said := func(call func()) (what any) {
		defer func() { what = recover() }()
		call()
		return nil
	}
	for _, call := range []func(){
		func() {
			text(m, context.Background(), "The sea", mica.WithProgress(func(_, _ uint64) { panic("here") }))
		},
		func() {
			text(m, context.Background(), "The", mica.WithOnToken(func(int, mica.Token) { panic("here") }))
		},
		func() {
			m.BatchGenerate(context.Background(), []string{"The"},
				mica.WithOnToken(func(int, mica.Token) { panic("here") }))
		},
		func() {
			for range m.Generate(context.Background(), "The") {
				panic("here")
			}
		},
		func() {
			mica.LoadModel(folder, mica.WithNoMmap(), mica.WithLoadProgress(func(_, _ uint64) { panic("here") }))
		},
	} {
		if what := said(call); what != "here" {
			t.Fatal(what)
		}
	}
	if text(m, context.Background(), "The", mica.WithMaxTokens(1)); m.Err() != nil {
		t.Fatal(m.Err())
	}
}

func TestMemoryControls(t *testing.T) {
	m, ctx := load(t), context.Background()
	old := mica.SetCacheLimit(1 << 20)
	if mica.SetCacheLimit(old) != 1<<20 || mica.GetDeviceInfo().Name != "cpu" {
		t.Fatal(mica.GetDeviceInfo())
	}
	mica.ResetPeakMemory()
	text(m, ctx, "The sea is", mica.WithMaxTokens(2))
	if mica.GetPeakMemory() == 0 || m.Metrics().PeakMemoryBytes == 0 {
		t.Fatal("the model is on the default device")
	}
	mica.ClearCache()
	if mica.GetCacheMemory() != 0 {
		t.Fatal(mica.GetCacheMemory())
	}
	was := mica.SetMemoryLimit(mica.GetActiveMemory() + 1000)
	text(m, ctx, "The sea is")
	mica.SetMemoryLimit(was)
	if !errors.Is(m.Err(), &mica.Error{Status: "MICA_ENOMEM"}) {
		t.Fatal(m.Err())
	}
	mica.SetWiredLimit(0)
	d, err := mica.OpenDevice("cpu", mica.DeviceConfig{Threads: 1})
	if err != nil || d.Info().Threads != 1 {
		t.Fatal(err)
	}
	d.Close()
	d.Close()
	if d.Info().Threads != 0 || d.ActiveMemory() != 0 {
		t.Fatal("a closed device")
	}
	if mica.DeviceAvailable("none") == nil || mica.DeviceAvailable("cpu") != nil {
		t.Fatal("devices")
	}
}

// other is an engine of a program's own.
type other struct{ inference.TextModel }

func (other) Name() string    { return "other" }
func (other) Available() bool { return true }
func (other) LoadModel(path string, config inference.LoadConfig) (inference.TextModel, error) {
	return nil, errors.New(path + config.Backend)
}

func TestRegistry(t *testing.T) {
	inference.Register(other{})
	if names := inference.List(); !reflect.DeepEqual(names, []string{"mlx_lm", "native", "other"}) {
		t.Fatal(names)
	}
	m, err := inference.LoadModel(folder, inference.WithContextLen(64))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for range m.Generate(context.Background(), "The", inference.WithMaxTokens(2)) {
	}
	if m.Err() != nil || m.Metrics().GeneratedTokens != 2 || m.Info().ContextLen != 64 {
		t.Fatal(m.Err(), m.Metrics(), m.Info())
	}
	if _, err := inference.LoadModel("/x", inference.WithBackend("other")); err == nil ||
		err.Error() != "/xother" {
		t.Fatal(err)
	}
	if m, err := inference.LoadModel("/nowhere"); m != nil || err == nil {
		t.Fatal(m, err)
	}
	if _, err := inference.LoadModel(folder, inference.WithBackend("none")); err == nil ||
		!strings.Contains(err.Error(), "native") {
		t.Fatal(err)
	}
}
