package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// A schema is one of docs/schema, as far as those use JSON Schema.
type schema map[string]any

// conforms says where a JSON text is not as the schema of a file says. A field that the schema
// does not name is a fault, too: it is not documented.
func conforms(t testing.TB, file, text string) (faults []string) {
	t.Helper()
	source, err := os.ReadFile("../../docs/schema/" + file) //nolint:gosec // of the repository
	if err != nil {
		t.Fatal(err)
	}
	var root schema
	var value any
	if err := json.Unmarshal(source, &root); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("no JSON: %v in %q", err, text)
	}
	return root.check(root, "", value)
}

func (s schema) check(root schema, at string, value any) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, at+": "+fmt.Sprintf(format, args...)) }
	if ref, ok := s["$ref"].(string); ok {
		s = root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	types, several := s["type"].([]any)
	if !several {
		types = []any{s["type"]}
	}
	if s["type"] != nil && !slices.ContainsFunc(types, func(one any) bool { return isType(value, one) }) {
		fault("%v is no %v", value, s["type"])
		return faults
	}
	for keyword, want := range s {
		switch keyword {
		case "$schema", "$id", "$defs", "$ref", "title", "description", "properties", "type":
		case "const":
			if !reflect.DeepEqual(value, want) {
				fault("%v is not %v", value, want)
			}
		case "enum":
			if !slices.Contains(want.([]any), value) {
				fault("%v is none of %v", value, want)
			}
		case "format":
			if _, err := time.Parse(time.RFC3339, fmt.Sprint(value)); err != nil {
				fault("%v is no %v", value, want)
			}
		case "minItems", "maxItems":
			if n := float64(len(value.([]any))); keyword == "minItems" && n < want.(float64) || keyword == "maxItems" && n > want.(float64) {
				fault("%v items, and %s is %v", n, keyword, want)
			}
		case "items":
			for i, item := range value.([]any) {
				faults = append(faults, schema(want.(map[string]any)).check(root, fmt.Sprintf("%s[%d]", at, i), item)...)
			}
		case "required":
			for _, name := range want.([]any) {
				if _, ok := value.(map[string]any)[name.(string)]; !ok {
					fault("no %v", name)
				}
			}
		case "additionalProperties":
		default:
			fault("this test does not know the keyword %s of the schema", keyword)
		}
	}
	object, ok := value.(map[string]any)
	if !ok {
		return faults
	}
	properties, _ := s["properties"].(map[string]any)
	rest, _ := s["additionalProperties"].(map[string]any)
	for name, field := range object {
		of, ok := properties[name].(map[string]any)
		if !ok {
			of = rest
		}
		if of == nil {
			fault("%s is not documented", name)
			continue
		}
		faults = append(faults, schema(of).check(root, at+"."+name, field)...)
	}
	return faults
}

// isType reports whether a value is of a type of JSON Schema.
func isType(value, name any) bool {
	switch value := value.(type) {
	case nil:
		return name == "null"
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case float64:
		return name == "number" || name == "integer" && value == float64(int64(value))
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	}
	return false
}

func TestTheCheckOfSchemasFindsFaults(t *testing.T) {
	if faults := conforms(t, "profile.v1.json", `{"schema":"quorumlock.profile/v1","settings":[{"name":"a","value":"b","from":"c"}]}`); faults != nil {
		t.Errorf("a right text has the faults %q", faults)
	}
	for text, want := range map[string]string{
		`{"schema":"quorumlock.profile/v2","settings":[]}`:                                               "is not quorumlock.profile/v1",
		`{"schema":"quorumlock.profile/v1"}`:                                                             "no settings",
		`{"schema":"quorumlock.profile/v1","settings":{}}`:                                               "is no array",
		`{"schema":"quorumlock.profile/v1","settings":[{"name":1,"value":"b","from":"c"}]}`:              "1 is no string",
		`{"schema":"quorumlock.profile/v1","settings":[{"name":"a","value":"b","from":"c","secret":1}]}`: "secret is not documented",
	} {
		if faults := strings.Join(conforms(t, "profile.v1.json", text), "; "); !strings.Contains(faults, want) {
			t.Errorf("%s has the faults %q, want %q", text, faults, want)
		}
	}
}
