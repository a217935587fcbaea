package e2e
import ("testing";"fmt";"os";"troupe/protocol";"strings")
func TestZZ(t *testing.T){
 for i:=range 5 { raw,_:=os.ReadFile(fmt.Sprintf("testdata/seeds/s%d.txt",i)); doc:=string(raw)
  if i==3 { var b strings.Builder; for _,l:=range strings.Split(doc,"\n"){ if rest,ok:=strings.CutPrefix(l,"+");ok {b.WriteString(strings.TrimPrefix(rest," ")+"\n")}}; doc=b.String() }
  c,e,o:=0,0,0
  for _,x:=range examples(doc){ ty:=x.str("type"); switch { case protocol.Lookup(ty)!=nil: c++; if !x.concrete() { fmt.Println(i,"shape",strings.Join(strings.Fields(x.raw)," ")) } ; case ty!="": e++; default: o++; fmt.Println(i, "other", clip(strings.Join(strings.Fields(x.raw)," "),150)) } }
  fmt.Println(i,c,e,o)
 }
}
