package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// budgetKeys are the settings that the words of --budget stand for.
var budgetKeys = map[string]string{
	"cost": "maxCostUsd", "wall": "maxWallTimeMs", "tokens": "maxTotalTokens", "input": "maxInputTokens", "output": "maxOutputTokens",
	"tools": "maxToolCalls", "subagents": "maxSubagents", "warn": "warnAtRatio",
}

// limit reads the value of --budget. What it says is checked again as settings are.
func (o *options) limit(v string) error {
	limits := map[string]any{}
	if o.budget != nil {
		var settings struct {
			Task struct{ Budget map[string]any }
		}
		if err := json.Unmarshal(o.budget, &settings); err != nil {
			return err
		}
		limits = settings.Task.Budget
	}
	for part := range strings.SplitSeq(v, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		key, known := budgetKeys[name]
		if !known {
			return wanted("limits named " + either(slices.Sorted(maps.Keys(budgetKeys))))
		}
		n, err := amount(name, value)
		if err != nil {
			return badValue(name, value, err)
		}
		limits[key] = n
	}
	var err error
	o.budget, err = json.Marshal(map[string]any{"task": map[string]any{"budget": limits}})
	return err
}

// maxAmount is the largest limit, of which every whole number below it can be told apart.
const maxAmount = 1<<53 - 1

// amount is a number, a duration in milliseconds, or nil for no limit.
func amount(name, value string) (any, error) {
	if value == "none" && name != "warn" {
		return nil, nil
	}
	if name == "wall" {
		if d, err := time.ParseDuration(value); err == nil && d >= 0 {
			return d.Milliseconds(), nil
		}
		return nil, wanted("a duration, such as 90s or 30m")
	}
	whole, factor := name != "cost" && name != "warn", 1.0
	for unit, times := range map[string]float64{"k": 1e3, "M": 1e6} {
		if digits, has := strings.CutSuffix(value, unit); has && whole {
			value, factor = digits, times
		}
	}
	n, err := strconv.ParseFloat(value, 64)
	n *= factor
	switch {
	case err != nil || !(n >= 0) || math.IsInf(n, 1) || whole && n != math.Trunc(n):
		return nil, wanted("a number of at least 0")
	case n > maxAmount:
		return nil, wanted(fmt.Sprintf("a number of at most %d", int64(maxAmount)))
	case name == "warn" && (n == 0 || n > 1):
		return nil, wanted("a number above 0, at most 1")
	case whole:
		return int64(n), nil
	}
	return n, nil
}
