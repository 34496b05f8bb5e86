// Promql evaluates PromQL with Prometheus' own parser and engine, over series that the caller writes down or that a
// program exposes.
//
// It reads one JSON object from its standard input and writes one to its standard output:
//
//	{"interval": 60, "series": ["up{job=\"a\"} 1 1 0 _x3"], "queries": [{"expr": "up == 0", "at": [120]}]}
//	{"answers": [{"selectors": [{"metric": "up", "labels": {}}],
//	              "results": [{"at": 120, "samples": [{"labels": {…}, "value": "0"}]}], "error": ""}]}
//
// Series are in the notation of promtool's rule tests; their first sample is at 0, the next one `interval` seconds
// later. Scrapes are texts that a target exposes, oldest first, and the labels that Prometheus adds to them:
//
//	{"scrapes": [{"at": 60, "labels": {"pod": "a"}, "text": "up 1\n"}], "queries": …}
//
// Storage, service discovery and the rest of Prometheus are left out: they are nine tenths of promtool.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

type query struct {
	Expr string    `json:"expr"`
	At   []float64 `json:"at"`
}

type scrape struct {
	At     float64           `json:"at"`
	Labels map[string]string `json:"labels"`
	Text   string            `json:"text"`
}

type question struct {
	Interval int64    `json:"interval"`
	Series   []string `json:"series"`
	Scrapes  []scrape `json:"scrapes"`
	Queries  []query  `json:"queries"`
}

type sample struct {
	Labels map[string]string `json:"labels"`
	Value  string            `json:"value"`
}

type result struct {
	At      float64  `json:"at"`
	Samples []sample `json:"samples"`
}

// selector is what a query asks of storage: a metric, and the labels that it is chosen by, with what they are compared to.
type selector struct {
	Metric string            `json:"metric"`
	Labels map[string]string `json:"labels"`
}

type answer struct {
	Selectors []selector `json:"selectors"`
	Results   []result   `json:"results"`
	Error     string     `json:"error"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return fmt.Errorf("the question is no JSON as expected: %w", err)
	}
	language := parser.NewParser(parser.Options{})
	kept, err := load(asked, language)
	if err != nil {
		return err
	}
	// As `prometheus` sets them: the lookback of its flag --query.lookback-delta, both modifiers always on.
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples:           50_000_000,
		Timeout:              time.Minute,
		LookbackDelta:        5 * time.Minute,
		EnableAtModifier:     true,
		EnableNegativeOffset: true,
		Parser:               language,
	})
	answers := make([]answer, 0, len(asked.Queries))
	for _, one := range asked.Queries {
		said := answer{Selectors: []selector{}, Results: []result{}}
		if err := evaluate(engine, language, kept, one, &said); err != nil {
			said.Error = err.Error()
		}
		answers = append(answers, said)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string][]answer{"answers": answers})
}

// load reads the series that are to be known.
func load(asked question, language parser.Parser) (memory, error) {
	var kept memory
	for _, text := range asked.Series {
		metric, values, err := language.ParseSeriesDesc(text)
		if err != nil {
			return nil, fmt.Errorf("series %q: %w", text, err)
		}
		one := promql.Series{Metric: metric}
		for number, sampled := range values {
			if !sampled.Omitted {
				at := int64(number) * asked.Interval * 1000
				one.Floats = append(one.Floats, promql.FPoint{T: at, F: sampled.Value})
			}
		}
		kept = append(kept, one)
	}
	return ingest(kept, asked.Scrapes)
}

// ingest adds the samples of each scrape. It ends the target's series that a scrape lacks, as Prometheus does.
func ingest(kept memory, scrapes []scrape) (memory, error) {
	known := map[string]int{}
	for _, one := range scrapes {
		at := int64(one.At * 1000)
		parsed, err := textparse.New([]byte(one.Text), "text/plain", nil, textparse.ParserOptions{})
		if err != nil {
			return nil, err
		}
		for {
			entry, err := parsed.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("scrape at %v: %w", one.At, err)
			}
			if entry != textparse.EntrySeries {
				continue
			}
			metric := labelled(parsed, one.Labels)
			number, there := known[metric.String()]
			if !there {
				number = len(kept)
				known[metric.String()] = number
				kept = append(kept, promql.Series{Metric: metric})
			}
			_, _, sampled := parsed.Series()
			kept[number].Floats = append(kept[number].Floats, promql.FPoint{T: at, F: sampled})
		}
		for _, number := range known {
			series := &kept[number]
			if isOf(series.Metric, one.Labels) && series.Floats[len(series.Floats)-1].T < at {
				series.Floats = append(series.Floats, promql.FPoint{T: at, F: math.Float64frombits(value.StaleNaN)})
			}
		}
	}
	return kept, nil
}

// labelled returns the labels of the sample that was parsed last, and those of its target.
func labelled(parsed textparse.Parser, target map[string]string) labels.Labels {
	var metric labels.Labels
	parsed.Labels(&metric)
	builder := labels.NewBuilder(metric)
	for name, set := range target {
		builder.Set(name, set)
	}
	return builder.Labels()
}

func isOf(metric labels.Labels, target map[string]string) bool {
	for name, set := range target {
		if metric.Get(name) != set {
			return false
		}
	}
	return true
}

// evaluate says what a query asks for, and what it gives at each of its times.
func evaluate(engine *promql.Engine, language parser.Parser, kept memory, one query, said *answer) error {
	expr, err := language.ParseExpr(one.Expr)
	if err != nil {
		return err
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if found, ok := node.(*parser.VectorSelector); ok {
			said.Selectors = append(said.Selectors, selector{Metric: found.Name, Labels: labelsOf(found)})
		}
		return nil
	})
	for _, at := range one.At {
		samples, err := instant(engine, kept, one.Expr, time.UnixMilli(int64(at*1000)))
		if err != nil {
			return err
		}
		said.Results = append(said.Results, result{At: at, Samples: samples})
	}
	return nil
}

func labelsOf(found *parser.VectorSelector) map[string]string {
	compared := map[string]string{}
	for _, matcher := range found.LabelMatchers {
		if matcher.Name != labels.MetricName {
			compared[matcher.Name] = matcher.Value
		}
	}
	return compared
}

func instant(engine *promql.Engine, kept memory, expr string, at time.Time) ([]sample, error) {
	asked, err := engine.NewInstantQuery(context.Background(), kept, nil, expr, at)
	if err != nil {
		return nil, err
	}
	defer asked.Close()
	got := asked.Exec(context.Background())
	if got.Err != nil {
		return nil, got.Err
	}
	vector, err := got.Vector()
	if err != nil {
		return nil, fmt.Errorf("not a vector: %w", err)
	}
	samples := []sample{}
	for _, found := range vector {
		written := strconv.FormatFloat(found.F, 'f', -1, 64)
		samples = append(samples, sample{Labels: found.Metric.Map(), Value: written})
	}
	return samples, nil
}

// memory is a storage that holds what was written down.
type memory []promql.Series

func (m memory) Querier(_, _ int64) (storage.Querier, error) { return m, nil }

func (m memory) Close() error { return nil }

func (m memory) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (m memory) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (m memory) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	found := &set{at: -1}
	for _, one := range m {
		if matches(one.Metric, matchers) {
			found.series = append(found.series, one)
		}
	}
	return found
}

func matches(metric labels.Labels, matchers []*labels.Matcher) bool {
	for _, matcher := range matchers {
		if !matcher.Matches(metric.Get(matcher.Name)) {
			return false
		}
	}
	return true
}

// set goes through series one by one.
type set struct {
	series []promql.Series
	at     int
}

func (s *set) Next() bool { s.at++; return s.at < len(s.series) }

func (s *set) At() storage.Series { return promql.NewStorageSeries(s.series[s.at]) }

func (s *set) Err() error { return nil }

func (s *set) Warnings() annotations.Annotations { return nil }
