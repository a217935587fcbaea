"use strict";

// What modules without a host compute. The suite runs in the engine with the prelude and
// in Node; both must say the same.
module.exports = async (r, dir, out) => {
const call = (f, ...a) => {
  try {
    const v = f(...a);
    return typeof v === "string" ? v : JSON.stringify(v);
  } catch (e) {
    return "throws " + e.name + " " + e.code;
  }
};
const P = r('path');

const paths=['','.','..','/','//','///','a','a/','/a','/a/','a/b','./a','../a','a/../b','/a/../..','a//b','/a/b/c.txt','.bashrc','a.b.c','a.','..a','a/.b','/.x','//a','///a','C:\\x','C:/x/y','c:','c:..','\\\\srv\\share\\f','\\','\\a\\b.c','a\\b','..\\..\\x','C:\\a\\..\\..\\b','foo/bar/','/foo/','a/b/../../..','/a/./b/.'];
for(const kind of ['posix','win32']){const o=P[kind];for(const p of paths){for(const f of ['normalize','dirname','basename','extname','isAbsolute','parse'])out(`${kind}.${f}(${p})`, call(o[f],p));for(const q of ['','a','../b','/c','d.txt']){out(`${kind}.join(${p},${q})`, call(o.join,p,q)); if(kind==='posix'||/^([A-Z]:[\\/]|\\\\srv)/.test(p)){out(`${kind}.resolve(${p},${q})`, call(o.resolve,p,q)); if(kind==='posix')out(`${kind}.relative(${p},${q})`, call(o.relative,p,q));}}}}
out('basename ext', P.basename('/a/b.txt','.txt'));out('format', P.format({dir:'/a',name:'b',ext:'c'}));out('basename', call(P.basename,null));
const B = r('buffer').Buffer;
const texts=['','a','häßlich','😀x','\ud800','ab\0c','0a1B2','zz','SGVsbG8gV29ybGQ=','SGVsbG8','-_-_','aGk=aGk=','€'.repeat(10)];
for(const t of texts)for(const e of ['utf8','hex','base64','base64url','latin1','binary','ascii','ucs2','utf16le','UTF-8',undefined]){out(`from ${t} ${e}`, call(()=>[...B.from(t,e)]));out('byteLength '+t+e, call(()=>B.byteLength(t,e)));for(const e2 of ['utf8','hex','base64','base64url','latin1','ascii','utf16le'])out(`tos ${t} ${e} ${e2}`, B.from(t,'utf8').toString(e2));}
const same = (what, f) => out(what, call(() => f(B)));
same('alloc fill',C=>[...C.alloc(5,'ab')]);same('concat',C=>C.concat([C.from('a'),C.from('bc')]).toString());same('concat len',C=>C.concat([C.from('abc'),C.from('d')],2).toString());
same('json',C=>JSON.stringify(C.from('hi')));same('slice',C=>C.from('hello').slice(1,-1).toString());same('idx',C=>[C.from('abcabc').indexOf('ca'),C.from('abcabc').lastIndexOf('abc'),C.from('abc').includes('z'),C.from('abcabc').indexOf('a',1),C.from('abcabc').indexOf(98),C.from('abcabc').lastIndexOf('a',2)]);
same('ints',C=>{const b=C.alloc(16);b.writeUInt32BE(0xdeadbeef,0);b.writeInt16LE(-2,4);b.writeDoubleBE(1.5,8);b.writeUIntBE(0x123456,5,3);return [...b,b.readUInt32BE(0),b.readInt16LE(4),b.readDoubleBE(8),b.readUIntBE(5,3),b.readIntLE(0,6)]});
same('oob',C=>C.alloc(2).readUInt32LE(0));same('range',C=>C.alloc(2).writeUInt8(300));same('enc',C=>C.from('a','nope'));same('bad',C=>C.from(5));same('null',C=>C.from(null));
same('copy',C=>{const a=C.from('abcdef'),b=C.alloc(4);const n=a.copy(b,1,2);return [n,...b]});same('write',C=>{const b=C.alloc(4);return [b.write('€€'),...b]});same('write enc',C=>{const b=C.alloc(4);return [b.write('0a0b','hex'),...b]});
same('equals',C=>[C.from('a').equals(C.from('a')),C.compare(C.from('a'),C.from('b')),C.from('b').compare(C.from('a'))]);same('swap',C=>[...C.from([1,2,3,4]).swap16(),...C.from([1,2,3,4]).swap32()]);
same('fromjson',C=>C.from(JSON.parse(JSON.stringify(C.from('xy')))).toString());same('isenc',C=>['utf8','x','HEX',5].map(C.isEncoding));same('share',C=>{const u=new Uint8Array([1,2,3]);const b=C.from(u.buffer,1,1);b[0]=9;return [...u]});
same('tostring args',C=>[C.from('hello').toString('utf8',1,3),C.from('hello').toString(undefined,-5,100)]);same('map',C=>C.from([1,2]).map(x=>x*2).constructor.name);
{const SD=r('string_decoder').StringDecoder;const src=B.from('aé€😀\xff'+'x'.repeat(3));const bad8=B.concat([src,B.from([0xe2,0x82]),B.from([0xff,0xf0,0x9f,0x41])]);for(const enc of ['utf8','base64','utf16le','hex','latin1'])for(let step=1;step<6;step++){const run=(D,C)=>{const d=new D(enc);let text='';for(let i=0;i<bad8.length;i+=step)text+=d.write(C.from(bad8.subarray(i,i+step)));return text+d.end()};out(`sd ${enc} ${step}`, run(SD, B));}}
for (const [l, o] of [["en-US"], ["en-US", { timeZone: "UTC" }], ["en-US", { timeZone: "America/New_York", dateStyle: "medium", timeStyle: "short" }], ["en-US", { timeZone: "UTC", month: "short", day: "numeric" }], ["en-US", { timeZone: "UTC", hour: "2-digit", minute: "2-digit", hour12: false }], ["en-US", { timeZone: "UTC", weekday: "long", year: "numeric", month: "long", day: "numeric" }]]) {
  const d = new Date(Date.UTC(2026, 0, 5, 15, 4, 9)), plain = (t) => t.replace(/\u202f/g, " ");
  for (const f of ["toLocaleString", "toLocaleDateString", "toLocaleTimeString"]) {
    if (!(o?.dateStyle && f !== "toLocaleString")) out(f + JSON.stringify(o), plain(d[f](l, o)));
  }
}
for (const [n, o] of [[1234567.891], [-0.5], [0.256, { style: "percent" }], [1234.5, { minimumFractionDigits: 2 }], [12345, { notation: "compact" }], [1.005, { maximumFractionDigits: 1 }], [9.99, { style: "currency", currency: "EUR" }], [5, { minimumIntegerDigits: 2 }]]) out("number " + n + JSON.stringify(o), n.toLocaleString("en-US", o));
out("localeCompare", JSON.stringify(["b", "a10", "A2", "ä"].sort((a, b) => a.localeCompare(b, "en", { numeric: true, sensitivity: "base" }))));
out('utf-16be', new TextDecoder('utf-16be').decode(new Uint8Array([0, 97, 0x20, 0xac, 0xd8, 0x3d, 0xde, 0])));
for (const [label, bytes] of [["gbk", [0xc4, 0xe3, 0xba, 0xc3, 0x41]], ["gb2312", [0xc4, 0xe3]], ["gb18030", [0x81, 0x30, 0x81, 0x30, 0xc4, 0xe3]], ["shift_jis", [0x93, 0xfa, 0x96, 0x7b, 0xb1]], ["sjis", [0x93, 0xfa]], ["euc-jp", [0xc6, 0xfc]], ["euc-kr", [0xc7, 0xd1, 0xb1, 0xdb]], ["big5", [0xa4, 0xa4, 0xa4, 0xe5]], ["windows-1251", [0xcf, 0xf0]], ["koi8-r", [0xf0]], ["iso-8859-2", [0xb1]], ["nope", [1]]]) {
  out(`TextDecoder ${label}`, call(() => new TextDecoder(label).decode(new Uint8Array(bytes))));
  out(`TextDecoder ${label} in pieces`, call(() => { const d = new TextDecoder(label); return bytes.map((b) => d.decode(new Uint8Array([b]), { stream: true })).join("") + d.decode(); }));
}
{
  performance.clearMarks();
  performance.mark("a", { startTime: 5, detail: { x: 1 } });
  performance.mark("b", { startTime: 12 });
  const m = performance.measure("m", "a", "b");
  out("measure", JSON.stringify([m.name, m.entryType, m.startTime, m.duration, performance.getEntriesByType("mark").map((e) => [e.name, e.startTime, e.detail]), performance.getEntriesByName("m").length]));
  out("measure with options", JSON.stringify([performance.measure("n", { start: "a", duration: 3 }).startTime, performance.measure("o", { start: 1, end: "b" }).duration]));
  out("measure of no mark", call(() => performance.measure("m", "none")).replace(/ [^ ]*$/, ""));
  performance.clearMarks("a");
  out("marks left", JSON.stringify(performance.getEntriesByType("mark").map((e) => e.name)));
}
out("WeakRef", call(() => new WeakRef({ a: 1 }).deref()));
{
  const weak = new WeakRef({ b: 2 });
  out("WeakRef, later in its job", call(() => [weak.deref(), weak.deref() === weak.deref(), weak instanceof WeakRef, WeakRef.name]));
}
if (!Array.fromAsync) Array.fromAsync = async (items, f) => { const made = []; for await (const v of items) made.push(f ? await f(v) : v); return made; }; // before Node 22
out("fromAsync", JSON.stringify([await Array.fromAsync((async function* () { yield 1; yield 2; })(), async (x) => x * 2), await Array.fromAsync([Promise.resolve(3), 4])]));
out("captureStackTrace", call(() => { const o = {}; Error.captureStackTrace(o); return typeof o.stack; }));
const U = r('util');
class Foo{constructor(){this.a=1}} class Bar extends Foo{} class Nul extends null{static x=1}
const circ={a:1};circ.self=circ;const circ2={x:{y:[]}};circ2.x.y.push(circ2.x);
const np=Object.create(null);np.k=1; const ownTag={[Symbol.toStringTag]:'T',v:1};
class Tagged{get [Symbol.toStringTag](){return 'Tg'}}
const vals=[1,-0,1.5,NaN,10n,'a',"it's",'"\'','`"\'','\n\x00\x7f\\',undefined,null,true,Symbol('s'),[],[1,2,3],[,1],[1,,,2],{}, {a:1},{a:{b:{c:{d:1}}}},[[[[1]]]],new Map([[1,{a:2}],['k',[1]]]),new Set([1,'a']),new Map(),new Set(),new Date(0),new Date(NaN),/a/g,new Foo,new Bar,Foo,Bar,Nul,function f(){},()=>{},async()=>{},function*g(){},async function*ag(){},class{},np,Object.create({}),ownTag,new Tagged,circ,circ2,{get a(){return 1},set b(v){},get c(){return 1},set c(v){}},new Uint8Array(3),new Float64Array([1,2]),new ArrayBuffer(2),Promise.reject,new WeakMap,new WeakSet,Object(1),Object('s'),Object(true),Object(Symbol('x')),Object(1n),{'a-b':1,[Symbol('q')]:2,'__proto__x':1},Array.from({length:7},(_, i)=>i),Array.from({length:30},(_, i)=>i*37),Array.from({length:150},(_, i)=>i),Array.from({length:30},(_, i)=>'item'+i),Array.from({length:10},(_, i)=>({id:i})),'x'.repeat(200),['x'.repeat(100),'y\nz'],{long:'line1\nline2\nline3 '+'q'.repeat(130)},{a:'x'.repeat(50),b:'y'.repeat(50),c:'z'.repeat(50)},{arr:[1,2,{x:[{}]}],m:new Map([[{a:1},new Set([1])]])},Object.assign(()=>{},{p:1}),Object.assign([1,2],{extra:true}),Object.assign(new Map([[1,2]]),{extra:1}),new (class extends Array{})(3),new (class MyMap extends Map{})([[1,2]]),[undefined,null],[['a','b'],['c']],{f(){},g:class A{}},globalThis.JSON,Math,[new Date(0),/x/],[1.5,-2,1000000],[['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','ccccccccccccccccccccccccccccccccc']],Array(5),[...'日本語テキスト漢字'],{[Symbol.for('a b')]:{}},new Proxy({a:1},{}),(function(){return arguments})(1,2),[1n,2n],Buffer.from('hi')];
const opts=[undefined,{depth:0},{depth:null},{compact:false},{compact:1},{breakLength:40},{colors:true},{sorted:true},{maxArrayLength:3},{maxStringLength:5},{getters:true},{breakLength:Infinity},{depth:1,breakLength:80}];
vals.forEach((v,i)=>opts.forEach((o,j)=>{ if(v instanceof Buffer) return; out(`inspect ${i} ${JSON.stringify(o)} ${String(typeof v==='symbol'?'s':typeof v)}`, U.inspect(v,o))}));
out('nested indent', U.inspect({a:{b:{c:'x'.repeat(80),d:[1,2,3,'y'.repeat(60)]}}}));
const e1=new Error('boom');e1.stack='Error: boom\n    at x (f.js:1:2)';const e2=new TypeError('t');e2.stack='TypeError: t\n    at y (f.js:1:2)';e2.code='X';const e3=new Error('o',{cause:e1});e3.stack='Error: o\n    at z (f.js:1:2)';
for(const v of [e1,e2,e3,{e:e1},[e2]])out('err', U.inspect(v));
for(const a of [['%s %d %i %f %j %o %O %%','x','4.5','4.5','4.5',{a:1},[1],{b:{c:{d:{}}}}],['a','b',{c:1}],[1,2,'x'],['%s',null],['%s',undefined,1],['%s',{}],['%s',new Foo],['%s',[1,[2]]],['%s',-0],['%s',5n],['%d',5n],['%s',Symbol('a')],['%c x','css'],['%x',1],['100%'],['%s',new Date(0)],['%s',{toString(){return 'own'}}],['%s',new Error('z').message],['%i',{}],['%d',''],[{a:1},'%s'],['%j',circ],['%s %s','only'],[],[null]])out('format '+JSON.stringify(a,(k,v)=>typeof v==='bigint'?'n':v===circ?'c':v), call(U.format,...a));
for(const [a,b] of [[1,1],[1,'1'],[{a:[1,{b:2}]},{a:[1,{b:2}]}],[new Map([[1,{}]]),new Map([[1,{}]])],[new Set([{}]),new Set([{}])],[[1,,2],[1,undefined,2]],[NaN,NaN],[0,-0],[new Date(1),new Date(1)],[/a/,/a/g],[{},[]],[np,{k:1}],[circ,circ],[new Uint8Array([1]),new Uint8Array([1])],[Object(1),Object(1)]])out('deep', U.isDeepStrictEqual(a,b));
out('strip', U.stripVTControlCharacters('\u001b[31mx\u001b[0m\u001b]8;;http://x\u0007l\u001b]8;;\u0007'));
for(const c of [{args:['-f','--bar','b'],options:{foo:{type:'boolean',short:'f'},bar:{type:'string'}}},{args:['x','--n=1','--n','2','--','-z'],options:{n:{type:'string',multiple:true}},allowPositionals:true},{args:['--nope'],options:{}},{args:['--bar'],options:{bar:{type:'string'}}},{args:['-abc'],options:{a:{type:'boolean',short:'a'},b:{type:'boolean',short:'b'},c:{type:'string',short:'c'}}},{args:['-abc','v'],options:{a:{type:'boolean',short:'a'},b:{type:'boolean',short:'b'},c:{type:'string',short:'c'}}},{args:['p'],options:{}},{args:['--x','y'],strict:false},{args:[],options:{d:{type:'string',default:'q'}}},{args:['--a=1'],options:{a:{type:'boolean'}}},{args:['-f','--','x'],options:{f:{type:'boolean',short:'f'}},allowPositionals:true,tokens:true}])out('parseArgs '+JSON.stringify(c), call(U.parseArgs,c));
{const run=(E)=>{const said=[];const e=new E;e.on('a',(...x)=>said.push('a',...x));e.once('a',()=>said.push('once'));e.prependListener('a',()=>said.push('first'));e.emit('a',1);e.emit('a',2);said.push(e.listenerCount('a'),String(e.eventNames()),e.emit('none'));try{e.emit('error',new Error('x'))}catch(x){said.push(x.message)}try{e.emit('error','s')}catch(x){said.push(x.message,x.code)}e.on('removeListener',(n)=>said.push('rm',n));e.removeAllListeners('a');class S extends E{};const s=new S;said.push(s instanceof E);const old={};E.call(old);Object.setPrototypeOf(old,E.prototype);old.on('x',()=>said.push('old'));old.emit('x');return JSON.stringify(said)};out('events', run(r('events')));}
const O = r('url');
const show=(C)=>(i,b)=>{const u=new C(i,b);return JSON.stringify([u.href,u.origin,u.protocol,u.username,u.password,u.host,u.port,u.pathname,u.search,u.hash,[...u.searchParams]])};
const inputs=['http://a','http://a/','HTTP://A.com:80/x/../y?q=1&b=2#h','https://u:p@h.org:8443/a b?c d#e f','file:///a/b','file://localhost/x','file:/a','file:a','file:///C:/x/../..','mailto:x@y','data:text/plain,hi there','about:blank','//h/p','/p','p','../x','?q','#f','','http://','http:///x','http://[::1]:3000/','http://[1:0:0:0:0:0:0:1]/','http://1.2.3/','http://0x7f.1/','http://256.1.1.1/','http://exämple.com/ü?ü#ü','http://a b/','http://a:99999/','http://a\\b\\c','ws://x/y','foo://h/p/../q','foo:/a/b','foo:bar','http://h/%7Efoo/%zz','http://h/a%2e%2e/b/%2E%2e/c','http://h?x','http://h#x','http://h/a;b=c?d=e&f=g+h','http://user@h/','http://@h/','http://h:/','git+ssh://git@github.com/o/r.git','http://日本語.jp','javascript:alert(1)','blob:http://h/x','http://h/a//b','http://h/./','http://h/..','  http://h  ','ht\ntp://h','http://h/"<>`{}|^','http://h?"<>\'`','http://h#"<>`'];
const bases=[undefined,'http://base/dir/file?bq#bf','file:///dir/f','foo:bar','foo://x/y/z'];
for(const i of inputs)for(const b of bases)out(`URL(${i},${b})`, call(show(O.URL),i,b));
for(const [p,v] of [['href','http://n/'],['protocol','https'],['host','x:1'],['hostname','y'],['port','443'],['port',''],['pathname','a b?c'],['search','x=1'],['search',''],['hash','z'],['hash',''],['username','é'],['password','p']]){const run=(C)=>{const u=new C('http://h:8/p?q#f');u.searchParams;u[p]=v;return JSON.stringify([u.href,[...u.searchParams]])};out('set '+p, call(run,O.URL));}
{const run=(C,P)=>{const u=new C('http://h/?a=1');u.searchParams.append('b','ä &');u.searchParams.set('a','2');u.searchParams.delete('zz');u.searchParams.sort();return u.href+new P({x:'1',y:'a b'})+new P([['k','~!*()']])+new P('?a=b&c&=d&e==f')+P.prototype.toString.call(new P('a=1&a=2')).length+new P('a=1&a=2').getAll('a')};out('params', call(run,O.URL,O.URLSearchParams));}
const I = r('util').inspect;out('inspect url', I(new O.URL('http://u@h/p?q=1')));
for(const p of ['/a b','/a#b?c%','/ü','/x/','/'])out('pathToFileURL', O.pathToFileURL(p).href);
for(const p of ['file:///a%20b','file:///%C3%BC','http://x','file://host/x','file:///a%2fb'])out('fileURLToPath '+p, call(O.fileURLToPath,p));
for(const p of ['http://user:pass@host.com:8080/p/a/t/h?query=string#hash','/path?x=1','//host/path','host/path','http://h','?a','#b','http://h?x=1#y','file:///a','http://a.com/b c',''])for(const q of [false,true])out('parse '+p, call(()=>({...O.parse(p,q)})));
for(const [a,b] of [['/one/two/three','four'],['http://example.com/','/one'],['http://example.com/one','/two'],['/a','../b'],['a/b','c']])out('resolve', call(O.resolve,a,b));
out('format', O.format({protocol:'https',hostname:'h',port:1,pathname:'p',query:{a:1}}));out('format url', O.format(new O.URL('http://u:p@h/x?y#z'),{auth:false,fragment:false}));
const Q = r('querystring');for(const t of ['','a=1&b=2&a=3','a','=b','a=%20+x','a=%zz','%E4%BD%A0=%ff','a==b','&&a'])out('qs '+t, call(Q.parse,t));for(const o of [{},{a:1,b:['x','y']},{a:'ü &'},{a:null,b:undefined,c:true,d:10n,e:NaN},null,'x'])out('qss', call(Q.stringify,o));out('qs sep', call(Q.parse,'a:1;b:2',';',':'));
const PC = r('punycode');out('pc', PC.encode('mañana'));out('pcd', PC.decode('maana-pta'));

};
