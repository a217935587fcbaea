package regex

import (
	"strings"
	"sync"
	"unicode"
)

// scriptCodes are the names of ISO 15924 for scripts.
const scriptCodes = `Adlm Adlam Arab Arabic Armn Armenian Beng Bengali Bopo Bopomofo Brai Braille Cans Canadian_Aboriginal Cher Cherokee
Copt Coptic Cyrl Cyrillic Deva Devanagari Dsrt Deseret Egyp Egyptian_Hieroglyphs Ethi Ethiopic Geor Georgian Glag Glagolitic
Goth Gothic Grek Greek Gujr Gujarati Guru Gurmukhi Hang Hangul Hani Han Hebr Hebrew Hira Hiragana Java Javanese Kana Katakana
Khmr Khmer Knda Kannada Laoo Lao Latn Latin Lina Linear_A Linb Linear_B Mlym Malayalam Mong Mongolian Mymr Myanmar Nkoo Nko
Ogam Ogham Orya Oriya Phnx Phoenician Runr Runic Sinh Sinhala Sund Sundanese Syrc Syriac Taml Tamil Telu Telugu Tfng Tifinagh
Tglg Tagalog Thaa Thaana Thai Thai Tibt Tibetan Ugar Ugaritic Vaii Vai Xsux Cuneiform Yiii Yi Zinh Inherited Zyyy Common`

// propertyNames maps normalized names to sets.
type propertyNames struct{ categories, scripts, binary map[string]func() runeSet }

var properties = sync.OnceValue(func() propertyNames {
	p := propertyNames{map[string]func() runeSet{}, map[string]func() runeSet{}, map[string]func() runeSet{}}
	add := func(to map[string]func() runeSet, name string, tables ...*unicode.RangeTable) {
		to[normalizedName(name)] = func() runeSet { return fromTables(tables...) }
	}
	for name, table := range unicode.Categories {
		add(p.categories, name, table)
	}
	for alias, name := range unicode.CategoryAliases {
		add(p.categories, alias, unicode.Categories[name])
	}
	for name, table := range unicode.Scripts {
		add(p.scripts, name, table)
	}
	codes := strings.Fields(scriptCodes)
	for i := 0; i < len(codes); i += 2 {
		if table := unicode.Scripts[codes[i+1]]; table != nil {
			add(p.scripts, codes[i], table)
		}
	}
	for name, table := range unicode.Properties {
		add(p.binary, name, table)
	}
	for _, name := range []string{"alphabetic", "alpha"} {
		p.binary[name] = alphabetic
	}
	for _, name := range []string{"uppercase", "upper"} {
		add(p.binary, name, unicode.Lu, unicode.Other_Uppercase)
	}
	for _, name := range []string{"lowercase", "lower"} {
		add(p.binary, name, unicode.Ll, unicode.Other_Lowercase)
	}
	add(p.binary, "space", unicode.White_Space)
	add(p.binary, "math", unicode.Sm, unicode.Other_Math)
	p.categories["any"] = func() runeSet { return everything(true) }
	p.categories["ascii"] = func() runeSet { return runeSet{0, 0x7f} }
	p.categories["assigned"] = func() runeSet { return everything(true).minus(fromTables(unicode.Cn)) }
	return p
})

// normalizedName drops the differences of UAX44-LM3.
func normalizedName(name string) string {
	name = strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
	if rest, ok := strings.CutPrefix(name, "is"); ok && name != "isc" {
		return rest
	}
	return name
}

// propertySet returns the set of \p{query}, or the text of an error.
func propertySet(query string) (s runeSet, problem string) {
	negated := false
	name, value, valued := strings.Cut(query, "!=")
	if negated = valued; !valued {
		if name, value, valued = strings.Cut(query, "="); !valued {
			name, value, valued = strings.Cut(query, ":")
		}
	}
	p := properties()
	var find func() runeSet
	if valued {
		switch normalizedName(name) {
		case "gc", "generalcategory":
			find = p.categories[normalizedName(value)]
		case "sc", "script", "scx", "scriptextensions":
			find = p.scripts[normalizedName(value)]
		default:
			return nil, "Unicode property not found"
		}
		problem = "Unicode property value not found"
	} else {
		problem = "Unicode property not found"
		for _, names := range []map[string]func() runeSet{p.binary, p.categories, p.scripts} {
			if find = names[normalizedName(name)]; find != nil {
				break
			}
		}
	}
	if find == nil {
		return nil, problem
	}
	if s = find(); negated {
		s = everything(true).minus(s)
	}
	return s, ""
}
